// SPDX-License-Identifier: Apache-2.0
// torch.ops.tilelace: schemas and kernels, over torch's stable ABI alone. The package adds what is
// Python's: shapes without data, gradients, groups; on CPU tensors it calls the ops `_cpu_...`, so
// that its exception type reaches the caller.
#include <torch/csrc/stable/library.h>

#include <sstream>

#include "bindings/torch/calls.h"
#include "bindings/torch/members.h"

namespace tilelace::torch_binding {
namespace {

using MaybeTensor = std::optional<Tensor>;
using MaybeTensors = std::optional<Tensors>;

std::tuple<MaybeTensor, Tensors> boxed_ag_gemm(Tensor x, Tensors weights, MaybeTensors biases,
                                               std::string group, int64_t dim,
                                               std::string activation, bool return_gathered,
                                               Sizes sizes) {
  return remembered([&] {
    return ag_gemm(
        {x, weights, biases, group, dim, activation, return_gathered, sizes, {}, {}, {}});
  });
}

void boxed_ag_gemm_out(Tensor x, Tensors weights, MaybeTensors biases, std::string group,
                       int64_t dim, std::string activation, Sizes sizes, Tensors out,
                       MaybeTensor gathered) {
  remembered([&] {
    ag_gemm({x,
             weights,
             biases,
             group,
             dim,
             activation,
             gathered.has_value(),
             sizes,
             {},
             out,
             gathered});
  });
}

std::tuple<MaybeTensor, Tensors> boxed_ag_gemm_like(Tensor x, Tensors weights, std::string group,
                                                    Tensor like, int64_t dim,
                                                    bool return_gathered) {
  return remembered([&] {
    return ag_gemm({x, weights, {}, group, dim, "none", return_gathered, {}, like, {}, {}});
  });
}

Tensor boxed_gemm_rs(Tensor x, Tensor weight, MaybeTensor bias, std::string group, int64_t dim,
                     std::string activation, Sizes sizes) {
  return remembered([&] {
    return gemm_reduce({Op::gemm_rs, x, weight, bias, group, dim, activation, sizes, {}});
  });
}

void boxed_gemm_rs_out(Tensor x, Tensor weight, MaybeTensor bias, std::string group, int64_t dim,
                       std::string activation, Sizes sizes, Tensor out) {
  remembered([&] {
    gemm_reduce({Op::gemm_rs, x, weight, bias, group, dim, activation, sizes, out});
  });
}

Tensor boxed_gemm_ar(Tensor x, Tensor weight, MaybeTensor bias, std::string group,
                     std::string activation) {
  return remembered([&] {
    return gemm_reduce({Op::gemm_ar, x, weight, bias, group, 0, activation, {}, {}});
  });
}

void boxed_gemm_ar_out(Tensor x, Tensor weight, MaybeTensor bias, std::string group,
                       std::string activation, Tensor out) {
  remembered([&] { gemm_reduce({Op::gemm_ar, x, weight, bias, group, 0, activation, {}, out}); });
}

Tensor boxed_all_gather(Tensor x, std::string group, int64_t dim, Sizes sizes) {
  return remembered([&] {
    return all_gather({x, {}, {}, group, dim, "none", true, sizes, {}, {}, {}});
  });
}

Tensor boxed_all_gather_like(Tensor x, std::string group, Tensor like, int64_t dim) {
  return remembered([&] {
    return all_gather({x, {}, {}, group, dim, "none", true, {}, like, {}, {}});
  });
}

Tensor boxed_reduce_scatter(Tensor x, std::string group, int64_t dim, Sizes sizes) {
  return remembered([&] {
    return reduce_scatter({Op::gemm_rs, x, x, {}, group, dim, "none", sizes, {}});
  });
}

Device device_named(const std::string& name) {
  if (name == "cuda") return Device::cuda;
  if (name == "cpu") return Device::cpu;
  wrong("join", "device", '"' + name + '"', "cpu or cuda");
}

/// Collective over the group's ranks, which meet in `directory`.
void join(std::string group, std::string device, int64_t rank, int64_t ranks, std::string directory,
          double timeout_s, int64_t workers, int64_t device_index) {
  remembered([&] {
    CommunicatorOptions options;
    options.device = device_named(device);
    options.timeout_s = timeout_s;
    options.workers = static_cast<int>(workers);
    options.device_index = static_cast<int>(device_index);
    add_member(
        group, options.device,
        Communicator::process(static_cast<int>(rank), static_cast<int>(ranks), directory, options));
  });
}

void leave(std::string group, std::string device) {
  remembered([&] { remove_member(group, device_named(device)); });
}

void leave_all() { remove_all_members(); }

void abort_group(std::string group, std::string device) {
  remembered([&] { member_of("abort", group, device_named(device))->communicator().abort(); });
}

void prepare_again(std::string group, std::string device) {
  remembered([&] { member_of("prepare", group, device_named(device))->prepare_again(); });
}

void synchronize(std::string group, std::string device, int64_t stream) {
  remembered([&] {
    member_of("synchronize", group, device_named(device))
        ->communicator()
        .synchronize(reinterpret_cast<void*>(stream));  // NOLINT(performance-no-int-to-ptr)
  });
}

/// Every problem that was prepared, with its plan, a line each.
std::vector<std::string> plans(std::string group, std::string device) {
  return remembered([&] {
    const auto member = member_of("plans", group, device_named(device));
    std::vector<std::string> lines;
    for (const auto& p : member->prepared()) {
      const Plan plan = query_plan(member->communicator(), p.problem);
      std::ostringstream line;
      line << p.problem << ": " << plan << " (" << plan.reason << ")";
      lines.push_back(line.str());
    }
    return lines;
  });
}

bool has_cuda() { return TILELACE_TORCH_CUDA != 0; }
int64_t last_kind() { return static_cast<int64_t>(last_error().first); }
std::string last_text() { return last_error().second; }

}  // namespace
}  // namespace tilelace::torch_binding

namespace tb = tilelace::torch_binding;

#define TILELACE_GATHER                                                                  \
  "(Tensor x, Tensor[] weights, Tensor[]? biases, str group_name, *, int gather_dim=0, " \
  "str activation=\"none\", "
#define TILELACE_SCATTER                                                           \
  "(Tensor x, Tensor weight, Tensor? bias, str group_name, *, int scatter_dim=0, " \
  "str activation=\"none\", int[]? sizes=None"
#define TILELACE_REDUCE \
  "(Tensor x, Tensor weight, Tensor? bias, str group_name, *, str activation=\"none\""
#define TILELACE_GATHER_ALONE "(Tensor x, str group_name, *, int gather_dim=0, int[]? sizes=None)"
#define TILELACE_SCATTER_ALONE "(Tensor x, str group_name, *, int scatter_dim=0, int[]? sizes=None)"
#define TILELACE_LIKE                                             \
  "(Tensor x, Tensor[] weights, str group_name, Tensor like, *, " \
  "int gather_dim=0, bool return_gathered=False)"

/// Each op twice: for its users, and as the kernel that the package calls on CPU tensors.
#define TILELACE_DEF(m, name, schema) \
  m.def(name schema);                 \
  m.def("_cpu_" name schema)

STABLE_TORCH_LIBRARY(tilelace, m) {
  TILELACE_DEF(m, "ag_gemm",
               TILELACE_GATHER
               "bool return_gathered=False, int[]? sizes=None) -> (Tensor?, Tensor[])");
  TILELACE_DEF(m, "ag_gemm_out",
               TILELACE_GATHER
               "int[]? sizes=None, Tensor(a!)[] out, Tensor(b!)? gathered=None) -> ()");
  TILELACE_DEF(m, "gemm_rs", TILELACE_SCATTER ") -> Tensor");
  TILELACE_DEF(m, "gemm_rs_out", TILELACE_SCATTER ", Tensor(a!) out) -> ()");
  TILELACE_DEF(m, "gemm_ar", TILELACE_REDUCE ") -> Tensor");
  TILELACE_DEF(m, "gemm_ar_out", TILELACE_REDUCE ", Tensor(a!) out) -> ()");
  TILELACE_DEF(m, "all_gather", TILELACE_GATHER_ALONE " -> Tensor");
  TILELACE_DEF(m, "reduce_scatter", TILELACE_SCATTER_ALONE " -> Tensor");
  // `like`: its size in gather_dim is the gathered one, split as gemm_rs splits it.
  TILELACE_DEF(m, "_ag_gemm_like", TILELACE_LIKE " -> (Tensor?, Tensor[])");
  TILELACE_DEF(m, "_all_gather_like",
               "(Tensor x, str group_name, Tensor like, *, int gather_dim=0) -> Tensor");
  m.def(
      "_join(str group_name, str device, int rank, int ranks, str directory, float timeout_s, "
      "int workers, int device_index) -> ()");
  m.def("_leave(str group_name, str device) -> ()");
  m.def("_leave_all() -> ()");
  m.def("_abort(str group_name, str device) -> ()");
  m.def("_prepare_again(str group_name, str device) -> ()");
  m.def("_synchronize(str group_name, str device, int stream) -> ()");
  m.def("_plans(str group_name, str device) -> str[]");
  m.def("_has_cuda() -> bool");
  m.def("_last_kind() -> int");
  m.def("_last_text() -> str");
}

#define TILELACE_IMPL(m, prefix)                                         \
  m.impl(prefix "ag_gemm", TORCH_BOX(&tb::boxed_ag_gemm));               \
  m.impl(prefix "ag_gemm_out", TORCH_BOX(&tb::boxed_ag_gemm_out));       \
  m.impl(prefix "gemm_rs", TORCH_BOX(&tb::boxed_gemm_rs));               \
  m.impl(prefix "gemm_rs_out", TORCH_BOX(&tb::boxed_gemm_rs_out));       \
  m.impl(prefix "gemm_ar", TORCH_BOX(&tb::boxed_gemm_ar));               \
  m.impl(prefix "gemm_ar_out", TORCH_BOX(&tb::boxed_gemm_ar_out));       \
  m.impl(prefix "all_gather", TORCH_BOX(&tb::boxed_all_gather));         \
  m.impl(prefix "reduce_scatter", TORCH_BOX(&tb::boxed_reduce_scatter)); \
  m.impl(prefix "_ag_gemm_like", TORCH_BOX(&tb::boxed_ag_gemm_like));    \
  m.impl(prefix "_all_gather_like", TORCH_BOX(&tb::boxed_all_gather_like))

STABLE_TORCH_LIBRARY_IMPL(tilelace, CPU, m) { TILELACE_IMPL(m, "_cpu_"); }
STABLE_TORCH_LIBRARY_IMPL(tilelace, CUDA, m) { TILELACE_IMPL(m, ""); }

STABLE_TORCH_LIBRARY_IMPL(tilelace, CompositeExplicitAutograd, m) {
  m.impl("_join", TORCH_BOX(&tb::join));
  m.impl("_leave", TORCH_BOX(&tb::leave));
  m.impl("_leave_all", TORCH_BOX(&tb::leave_all));
  m.impl("_abort", TORCH_BOX(&tb::abort_group));
  m.impl("_prepare_again", TORCH_BOX(&tb::prepare_again));
  m.impl("_synchronize", TORCH_BOX(&tb::synchronize));
  m.impl("_plans", TORCH_BOX(&tb::plans));
  m.impl("_has_cuda", TORCH_BOX(&tb::has_cuda));
  m.impl("_last_kind", TORCH_BOX(&tb::last_kind));
  m.impl("_last_text", TORCH_BOX(&tb::last_text));
}
