// SPDX-License-Identifier: Apache-2.0
// torch.ops.tilelace: schemas and kernels, over torch's stable ABI alone. The package adds what is
// Python's: shapes without data, gradients, groups; on CPU tensors it calls the ops `_cpu_...`, so
// that its exception type reaches the caller.
#include <torch/csrc/stable/library.h>

#include <utility>

#include "bindings/torch/calls.h"
#include "bindings/torch/collective_ops.h"
#include "bindings/torch/members.h"
#include "bindings/torch/moe.h"
#include "bindings/torch/services.h"

namespace tilelace::torch_binding {
namespace {

using std::string_literals::operator""s;

using MaybeTensor = std::optional<Tensor>;
using MaybeTensors = std::optional<Tensors>;

// NOLINTBEGIN(performance-unnecessary-value-param): torch's boxing gives values.
/// Kernels of the op; what it is decides which it has.
template <Op op>
struct Boxed {
  using Gathered = std::tuple<MaybeTensor, Tensors>;

  static OpResults run(const OpCall& of) {
    return remembered([&] { return call(of); });
  }
  static MaybeTensors one(const MaybeTensor& t) {
    return t ? MaybeTensors(Tensors{*t}) : std::nullopt;
  }

  static Gathered gather(Tensor x, Tensors weights, MaybeTensors biases, std::string group,
                         int64_t dim, std::string activation, bool return_gathered, Sizes sizes) {
    auto r = run({op, x, weights, biases, group, dim, activation, return_gathered, sizes});
    return {std::move(r.gathered), std::move(r.outs)};
  }
  static void gather_out(Tensor x, Tensors weights, MaybeTensors biases, std::string group,
                         int64_t dim, std::string activation, Sizes sizes, Tensors out,
                         MaybeTensor gathered, const MaybeTensor& /*after*/) {
    const bool wanted = gathered.has_value();
    run({op, x, weights, biases, group, dim, activation, wanted, sizes, {}, out, gathered});
  }
  static Gathered gather_like(Tensor x, Tensors weights, std::string group, Tensor like,
                              int64_t dim, bool return_gathered) {
    auto r = run({op, x, weights, {}, group, dim, "none", return_gathered, {}, like});
    return {std::move(r.gathered), std::move(r.outs)};
  }
  static OpCall sum_call(const Tensor& x, const Tensor& weight, const MaybeTensor& bias,
                         const MaybeTensor& residual, const std::string& group,
                         const std::string& activation) {
    OpCall call{op, x, {weight}, one(bias), group, 0, activation};
    call.residual = residual;
    return call;
  }
  static Tensor scatter(Tensor x, Tensor weight, MaybeTensor bias, MaybeTensor residual,
                        std::string group, int64_t dim, std::string activation, Sizes sizes) {
    OpCall call = sum_call(x, weight, bias, residual, group, activation);
    call.dim = dim, call.sizes = sizes;
    return run(call).outs[0];
  }
  static void scatter_out(Tensor x, Tensor weight, MaybeTensor bias, MaybeTensor residual,
                          std::string group, int64_t dim, std::string activation, Sizes sizes,
                          Tensor out, const MaybeTensor& /*after*/) {
    OpCall call = sum_call(x, weight, bias, residual, group, activation);
    call.dim = dim, call.sizes = sizes, call.out = one(out);
    run(call);
  }
  static Tensor share(Tensor x, Tensor weight, MaybeTensor bias, MaybeTensor residual,
                      std::string group, std::string activation) {
    return run(sum_call(x, weight, bias, residual, group, activation)).outs[0];
  }
  static void share_out(Tensor x, Tensor weight, MaybeTensor bias, MaybeTensor residual,
                        std::string group, std::string activation, Tensor out,
                        const MaybeTensor& /*after*/) {
    OpCall call = sum_call(x, weight, bias, residual, group, activation);
    call.out = one(out);
    run(call);
  }
  static Tensor alone(Tensor x, std::string group, int64_t dim, Sizes sizes) {
    return remembered([&] {
      return collective({op, x, {}, {}, group, dim, "none", false, sizes});
    });
  }
  static Tensor alone_like(Tensor x, std::string group, Tensor like, int64_t dim) {
    return remembered([&] {
      return collective({op, x, {}, {}, group, dim, "none", false, {}, like});
    });
  }
};
// NOLINTEND(performance-unnecessary-value-param)

using torch::stable::detail::StableLibrary;

constexpr const char* kActivation = "str activation=\"none\"";

template <Op op>
void add_gather(const std::string& name, const std::string& alone, std::vector<OpEntry>& all) {
  const auto head =
      "(Tensor x, Tensor[] weights, Tensor[]? biases, str group_name, *, int gather_dim=0, "s;
  const auto results = ") -> (Tensor?, Tensor[])"s;
  all.push_back({name, head + kActivation + ", bool return_gathered=False, " + kSizes + results,
                 TORCH_BOX(&Boxed<op>::gather)});
  all.push_back({name + "_out",
                 head + kActivation + ", " + kSizes +
                     ", Tensor(a!)[] out, Tensor(b!)? gathered=None" + kAfter,
                 TORCH_BOX(&Boxed<op>::gather_out)});
  // Size gather_dim of `like` is the gathered one, split as results are that are scattered.
  all.push_back({"_" + name + "_like",
                 "(Tensor x, Tensor[] weights, str group_name, Tensor like, *, int gather_dim=0, "
                 "bool return_gathered=False" +
                     results,
                 TORCH_BOX(&Boxed<op>::gather_like)});
  if (is_collective(alone)) return;
  all.push_back({alone,
                 "(Tensor x, str group_name, *, int gather_dim=0, " + (kSizes + ") -> Tensor"s),
                 TORCH_BOX(&Boxed<op>::alone)});
  all.push_back({"_" + alone + "_like",
                 "(Tensor x, str group_name, Tensor like, *, int gather_dim=0) -> Tensor",
                 TORCH_BOX(&Boxed<op>::alone_like)});
}

constexpr const char* kSumHead =
    "(Tensor x, Tensor weight, Tensor? bias, Tensor? residual, str group_name, *, ";

template <Op op>
void add_scatter(const std::string& name, const std::string& alone, std::vector<OpEntry>& all) {
  const std::string head = kSumHead + "int scatter_dim=0, "s + kActivation + ", " + kSizes;
  all.push_back({name, head + ") -> Tensor", TORCH_BOX(&Boxed<op>::scatter)});
  all.push_back(
      {name + "_out", head + ", Tensor(a!) out" + kAfter, TORCH_BOX(&Boxed<op>::scatter_out)});
  if (is_collective(alone)) return;
  all.push_back({alone,
                 "(Tensor x, str group_name, *, int scatter_dim=0, "s + kSizes + ") -> Tensor",
                 TORCH_BOX(&Boxed<op>::alone)});
}

template <Op op>
void add_share(const std::string& name, std::vector<OpEntry>& all) {
  const std::string head = std::string(kSumHead) + kActivation;
  all.push_back({name, head + ") -> Tensor", TORCH_BOX(&Boxed<op>::share)});
  all.push_back(
      {name + "_out", head + ", Tensor(a!) out" + kAfter, TORCH_BOX(&Boxed<op>::share_out)});
}

template <std::size_t i>
void add_op(std::vector<OpEntry>& all) {
  constexpr const OpRow& row = op_table()[i];
  const std::string name(row.name), alone(row.collective);
  if constexpr (row.gathers) add_gather<row.op>(name, alone, all);
  if constexpr (row.scatters()) add_scatter<row.op>(name, alone, all);
  if constexpr (row.shares) add_share<row.op>(name, all);
}

const std::vector<OpEntry>& ops() {
  static const auto all = []<std::size_t... i>(std::index_sequence<i...>) {
    std::vector<OpEntry> list;
    (add_op<i>(list), ...);
    for (auto& op : collective_ops()) list.push_back(std::move(op));
    for (auto& op : moe_ops()) list.push_back(std::move(op));
    return list;
  }
  (std::make_index_sequence<op_table().size()>());
  return all;
}

/// Each op twice: for its users, and as the kernel that the package calls on CPU tensors.
void define(StableLibrary& library) {
  for (const auto& op : ops()) {
    library.def((op.name + op.schema).c_str());
    library.def(("_cpu_" + op.name + op.schema).c_str());
  }
  for (const auto& op : local_ops()) library.def((op.name + op.schema).c_str());
  for (const auto& s : services()) library.def((s.name + s.schema).c_str());
}

}  // namespace
}  // namespace tilelace::torch_binding

STABLE_TORCH_LIBRARY(tilelace, m) { tilelace::torch_binding::define(m); }
STABLE_TORCH_LIBRARY_IMPL(tilelace, CPU, m) {
  for (const auto& op : tilelace::torch_binding::ops()) {
    m.impl(("_cpu_" + op.name).c_str(), op.kernel);
  }
  for (const auto& op : tilelace::torch_binding::local_ops()) m.impl(op.name.c_str(), op.kernel);
}
STABLE_TORCH_LIBRARY_IMPL(tilelace, CUDA, m) {
  for (const auto& op : tilelace::torch_binding::ops()) m.impl(op.name.c_str(), op.kernel);
  for (const auto& op : tilelace::torch_binding::local_ops()) m.impl(op.name.c_str(), op.kernel);
}
STABLE_TORCH_LIBRARY_IMPL(tilelace, CompositeExplicitAutograd, m) {
  for (const auto& s : tilelace::torch_binding::services()) m.impl(s.name.c_str(), s.kernel);
}
