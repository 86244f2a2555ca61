// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/collective_ops.h"

#include <algorithm>
#include <utility>

#include "bindings/torch/collectives.h"
#include "bindings/torch/members.h"
#include "bindings/torch/moe.h"
#include "bindings/torch/norm.h"

namespace tilelace::torch_binding {
namespace {

using std::string_literals::operator""s;
using MaybeTensor = std::optional<Tensor>;

Tensor made(const CollectiveCall& of) {
  return remembered([&] { return collect(of); });
}

// NOLINTBEGIN(performance-unnecessary-value-param): torch's boxing gives values.
Tensor reduce(Tensor x, std::string group, std::string op) {
  return made({.collective = Collective::all_reduce, .x = x, .group = group, .reduction = op});
}
void reduce_out(Tensor x, std::string group, std::string op, Tensor out,
                const MaybeTensor& /*after*/) {
  made({.collective = Collective::all_reduce, .x = x, .group = group, .reduction = op, .out = out});
}
Tensor gather(Tensor x, std::string group, int64_t dim, Sizes sizes) {
  return made(
      {.collective = Collective::all_gather, .x = x, .group = group, .dim = dim, .sizes = sizes});
}
void gather_out(Tensor x, std::string group, int64_t dim, Sizes sizes, Tensor out,
                const MaybeTensor& /*after*/) {
  made({.collective = Collective::all_gather,
        .x = x,
        .group = group,
        .dim = dim,
        .sizes = sizes,
        .out = out});
}
Tensor gather_like(Tensor x, std::string group, Tensor like, int64_t dim) {
  return made(
      {.collective = Collective::all_gather, .x = x, .group = group, .dim = dim, .like = like});
}
Tensor scatter(Tensor x, std::string group, int64_t dim, Sizes sizes, std::string op) {
  return made({.collective = Collective::reduce_scatter,
               .x = x,
               .group = group,
               .reduction = op,
               .dim = dim,
               .sizes = sizes});
}
void scatter_out(Tensor x, std::string group, int64_t dim, Sizes sizes, std::string op, Tensor out,
                 const MaybeTensor& /*after*/) {
  made({.collective = Collective::reduce_scatter,
        .x = x,
        .group = group,
        .reduction = op,
        .dim = dim,
        .sizes = sizes,
        .out = out});
}
Tensor exchange(Tensor x, std::string group, Sizes sends, Sizes takes) {
  return made({.collective = Collective::all_to_all,
               .x = x,
               .group = group,
               .sends = sends,
               .takes = takes});
}
void exchange_out(Tensor x, std::string group, Sizes sends, Sizes takes, Tensor out,
                  const MaybeTensor& /*after*/) {
  made({.collective = Collective::all_to_all,
        .x = x,
        .group = group,
        .sends = sends,
        .takes = takes,
        .out = out});
}
using Normed = std::tuple<MaybeTensor, Tensor, MaybeTensor, MaybeTensor>;
Normed norm(Tensor x, Tensor weight, MaybeTensor residual, MaybeTensor scale, std::string group,
            double eps, std::string quant, bool return_normed) {
  auto r = remembered([&] {
    return all_reduce_norm({x, weight, residual, scale, group, eps, quant, return_normed});
  });
  return {std::move(r.normed), *std::move(r.out), std::move(r.quantised), std::move(r.scales)};
}
void norm_out(Tensor x, Tensor weight, MaybeTensor residual, MaybeTensor scale, std::string group,
              double eps, std::string quant, MaybeTensor normed, MaybeTensor out,
              MaybeTensor quantised, MaybeTensor scales, const MaybeTensor& /*after*/) {
  remembered([&] {
    const NormTensors given{normed, out, quantised, scales};
    all_reduce_norm({x, weight, residual, scale, group, eps, quant, false, given});
  });
}
// NOLINTEND(performance-unnecessary-value-param)

constexpr const char* kHead = "(Tensor x, str group_name, *, ";
constexpr const char* kOut = ", Tensor(a!) out";

void add(std::vector<OpEntry>& all, Collective of, const std::string& settings, Kernel kernel,
         Kernel with_out) {
  const std::string name(row_of(of).name);
  all.push_back({name, kHead + settings + ") -> Tensor", kernel});
  all.push_back({name + "_out", kHead + settings + kOut + kAfter, with_out});
}

}  // namespace

bool is_collective(std::string_view name) {
  return std::any_of(kCollectives.begin(), kCollectives.end(),
                     [&](const CollectiveRow& row) { return row.name == name; });
}

std::vector<OpEntry> collective_ops() {
  // Not `op`: torch calls ops that compilers keep with an argument of that name.
  const auto op = "str reduce_op=\"sum\""s;
  std::vector<OpEntry> all;
  add(all, Collective::all_reduce, op, TORCH_BOX(&reduce), TORCH_BOX(&reduce_out));
  add(all, Collective::all_gather, "int gather_dim=0, "s + kSizes, TORCH_BOX(&gather),
      TORCH_BOX(&gather_out));
  // Size gather_dim of `like` is the gathered one, split as results are that are scattered.
  all.push_back({"_all_gather_like",
                 "(Tensor x, str group_name, Tensor like, *, int gather_dim=0) -> Tensor",
                 TORCH_BOX(&gather_like)});
  add(all, Collective::reduce_scatter, "int scatter_dim=0, "s + kSizes + ", " + op,
      TORCH_BOX(&scatter), TORCH_BOX(&scatter_out));
  add(all, Collective::all_to_all, "SymInt[]? sends=None, SymInt[]? takes=None",
      TORCH_BOX(&exchange), TORCH_BOX(&exchange_out));
  // Torch has gradients of tensors before the `*` alone.
  const auto head =
      "(Tensor x, Tensor weight, Tensor? residual, Tensor? scale, str group_name, *, "
      "float eps=1e-06, str quant=\"none\", "s;
  all.push_back({"all_reduce_norm",
                 head + "bool return_normed=False) -> (Tensor?, Tensor, Tensor?, Tensor?)",
                 TORCH_BOX(&norm)});
  all.push_back({"all_reduce_norm_out",
                 head +
                     "Tensor(a!)? normed=None, Tensor(b!)? out=None, "
                     "Tensor(c!)? quantised=None, Tensor(d!)? scales=None" +
                     kAfter,
                 TORCH_BOX(&norm_out)});
  return all;
}

std::vector<std::string> collective_names() {
  std::vector<std::string> names;
  for (const auto& op : collective_ops()) names.push_back(op.name);
  for (const auto& op : moe_ops()) names.push_back(op.name);  // collectives are what they wait in
  return names;
}

}  // namespace tilelace::torch_binding
