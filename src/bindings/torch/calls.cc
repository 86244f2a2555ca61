// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/calls.h"

#include <torch/csrc/stable/accelerator.h>

#include <numeric>

#include "bindings/torch/members.h"

// Only builds of torch with CUDA have it; they load it with the library that every build has.
extern "C" __attribute__((weak)) AOTITorchError aoti_torch_get_current_cuda_stream(int32_t, void**);

namespace tilelace::torch_binding {
namespace {

Device device_of(std::string_view op, const Tensor& x) {
  if (x.is_cuda()) return Device::cuda;
  if (x.is_cpu()) return Device::cpu;
  wrong(op, "x", "a tensor on another device", "one on cpu or cuda");
}

void* stream_of(const Tensor& x) {
  if (!x.is_cuda() || aoti_torch_get_current_cuda_stream == nullptr) return nullptr;
  void* stream = nullptr;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(x.get_device_index(), &stream));
  return stream;
}

/// What a call on one rank knows of its group.
struct Place {
  std::shared_ptr<Member> member;
  Device device;
  int rank;
  int ranks;
  void* stream;

  [[nodiscard]] Communicator& communicator() const { return member->communicator(); }
};

Place place_of(Op op, const Tensor& x, const std::string& group) {
  const auto name = name_of(op);
  const Device device = device_of(name, x);
  auto member = member_of(name, group, device);
  const int rank = member->communicator().rank();
  const int ranks = member->communicator().size();
  return {std::move(member), device, rank, ranks, stream_of(x)};
}

/// Runs the part that only this rank can judge; what it finds wrong the peers are told.
template <class Body>
auto checked_here(const Place& place, const Body& body) {
  try {
    return body();
  } catch (const Error& e) {
    refuse(place.communicator(), e.what(), place.stream);
    throw;
  }
}

std::vector<int64_t> remainder_first(int64_t units, int ranks) {
  std::vector<int64_t> sizes;
  for (int r = 0; r < ranks; ++r) sizes.push_back((units + ranks - 1 - r) / ranks);
  return sizes;
}

void check_sizes(std::string_view op, const std::vector<int64_t>& sizes, int ranks) {
  if (static_cast<int>(sizes.size()) != ranks) {
    wrong(op, "sizes", std::to_string(sizes.size()) + " entries",
          "one a rank (" + std::to_string(ranks) + ")");
  }
  for (const auto s : sizes) {
    if (s < 0) wrong(op, "sizes", std::to_string(s), "0 or more");
  }
}

/// Units of every rank, and the rows that the library is told: none where it splits evenly itself.
struct Split {
  std::vector<int64_t> units;
  std::vector<int64_t> rows;
  int64_t total = 0;
};

Split split_of(std::vector<int64_t> units, int64_t inner) {
  Split s;
  s.total = std::accumulate(units.begin(), units.end(), int64_t{0});
  const bool even = units == remainder_first(s.total, static_cast<int>(units.size()));
  const bool whole = s.total % static_cast<int64_t>(units.size()) == 0;
  if (!even || (inner != 1 && !whole)) {
    for (const auto u : units) s.rows.push_back(u * inner);
  }
  s.units = std::move(units);
  return s;
}

Split gather_split(std::string_view op, const GatherCall& call, const Rows& x, const Place& place) {
  std::vector<int64_t> units(static_cast<std::size_t>(place.ranks), x.units);
  if (call.sizes) {
    check_sizes(op, *call.sizes, place.ranks);
    units = *call.sizes;
  } else if (call.like) {
    units = remainder_first(call.like->size(x.dim), place.ranks);
  }
  const auto own = units[static_cast<std::size_t>(place.rank)];
  if (own != x.units) {
    wrong(op, "x", std::to_string(x.units) + " in dimension " + std::to_string(x.dim),
          std::to_string(own) + ": this rank's size");
  }
  return split_of(std::move(units), x.inner);
}

Split reduce_split(std::string_view op, const ReduceCall& call, const Rows& x, int ranks) {
  if (!call.sizes) return split_of(remainder_first(x.units, ranks), x.inner);
  check_sizes(op, *call.sizes, ranks);
  auto split = split_of(*call.sizes, x.inner);
  if (split.total != x.units) {
    wrong(op, "sizes", "a sum of " + std::to_string(split.total),
          std::to_string(x.units) + ": size of x in dimension " + std::to_string(x.dim));
  }
  return split;
}

std::vector<TensorView> views_of(const std::vector<Matrix>& matrices) {
  std::vector<TensorView> views;
  for (const auto& m : matrices) views.push_back(m.view);
  return views;
}

/// An all-gather call, laid out.
struct Gather {
  Rows rows;
  Split split;
  Matrix x;
  std::vector<Matrix> weights, biases;
  std::vector<Result> outs;
  std::optional<Result> gathered;
  Activation activation = Activation::none;
  Problem problem;
};

void add_results(Gather& g, const GatherCall& call, const Place& place) {
  const int64_t m = g.split.total * g.rows.inner;
  const std::size_t outs = g.problem.outputs();
  if (call.out && call.out->size() != outs) {
    wrong("ag_gemm", "out", std::to_string(call.out->size()), std::to_string(outs));
  }
  for (std::size_t i = 0; i < outs; ++i) {
    if (!call.out) {
      g.outs.emplace_back(g.x.tensor, m, g.problem.n[i], place.device);
    } else {
      g.outs.emplace_back("ag_gemm", "out " + std::to_string(i), (*call.out)[i], g.rows,
                          g.split.total, g.problem.n[i], place.device);
    }
  }
  if (!g.problem.return_gathered) return;
  if (!call.gathered) {
    g.gathered.emplace(g.x.tensor, m, g.problem.k, place.device);
  } else {
    g.gathered.emplace("ag_gemm", "gathered", *call.gathered, g.rows, g.split.total, g.problem.k,
                       place.device);
  }
}

Gather lay_out(const GatherCall& call, const Place& place, bool product) {
  constexpr std::string_view op = "ag_gemm";
  Gather g{rows_of(op, call.x, call.dim), {}, {}, {}, {}, {}, {}, Activation::none, {}};
  g.split = gather_split(op, call, g.rows, place);
  g.x = matrix_of(op, "x", g.rows.matrix, place.device);
  g.activation = activation_of(op, call.activation);
  for (std::size_t i = 0; i < call.weights.size(); ++i) {
    const auto name = "weight " + std::to_string(i);
    if (call.weights[i].dim() != 2) wrong(op, name, shape_of(call.weights[i]), "[n, k]");
    g.weights.push_back(matrix_of(op, name, call.weights[i], place.device));
  }
  for (std::size_t i = 0; call.biases && i < call.biases->size(); ++i) {
    const auto& bias = (*call.biases)[i];
    const auto name = "bias " + std::to_string(i);
    if (bias.dim() != 1) wrong(op, name, shape_of(bias), "[n]");
    g.biases.push_back(matrix_of(op, name, bias, place.device));
  }
  Problem& p = g.problem;
  p.op = Op::ag_gemm;
  p.ranks = place.ranks;
  p.m = g.split.total * g.rows.inner;
  for (const auto& w : g.weights) p.n.push_back(w.view.rows);
  if (!product) p.n = {8};  // what the library takes a gather alone for
  p.k = g.x.view.cols;
  p.dtype = g.x.view.dtype;
  p.bias = !g.biases.empty();
  p.activation = g.activation;
  p.return_gathered = call.return_gathered;
  p.rows = g.split.rows;
  if (product && p.n.empty()) wrong(op, "weights", "none", "at least one");
  if (product) {
    add_results(g, call, place);
  } else {
    g.gathered.emplace(g.x.tensor, p.m, p.k, place.device);
  }
  return g;
}

template <class Run>
void run(const Gather& g, const Place& place, const Run& call) {
  AgGemmArgs args;
  args.m = g.problem.m;
  args.a = g.x.view;
  const auto weights = views_of(g.weights);
  const auto biases = views_of(g.biases);
  std::vector<TensorView> outs;
  for (const auto& o : g.outs) outs.push_back(o.view());
  args.weights = weights;
  args.bias = biases;
  args.activation = g.activation;
  args.out = outs;
  if (g.gathered) args.gathered = g.gathered->view();
  args.rows = g.split.rows;
  args.stream = place.stream;
  place.member->make_room(g.problem);
  call(place.communicator(), args);
}

/// A reduction, laid out.
struct Reduce {
  Rows rows;
  Split split;
  Matrix x;
  std::optional<Matrix> weight, bias;
  std::optional<Result> out;
  Activation activation = Activation::none;
  Problem problem;
  int64_t out_units = 0;
};

Reduce lay_out(const ReduceCall& call, const Place& place, bool product) {
  const auto op = name_of(call.op);
  const bool scatter = call.op == Op::gemm_rs;
  Reduce r{
      rows_of(op, call.x, scatter ? call.dim : 0), {}, {}, {}, {}, {}, Activation::none, {}, 0};
  r.split = scatter ? reduce_split(op, call, r.rows, place.ranks) : Split{{}, {}, r.rows.units};
  r.out_units = scatter ? r.split.units[static_cast<std::size_t>(place.rank)] : r.rows.units;
  r.x = matrix_of(op, "x", r.rows.matrix, place.device);
  r.activation = activation_of(op, call.activation);
  if (product) {
    if (call.weight.dim() != 2) wrong(op, "weight", shape_of(call.weight), "[n, k]");
    r.weight = matrix_of(op, "weight", call.weight, place.device);
  }
  if (call.bias) {
    if (call.bias->dim() != 1) wrong(op, "bias", shape_of(*call.bias), "[n]");
    r.bias = matrix_of(op, "bias", *call.bias, place.device);
  }
  Problem& p = r.problem;
  p.op = call.op;
  p.ranks = place.ranks;
  p.m = r.x.view.rows;
  p.n = {product ? r.weight->view.rows : r.x.view.cols};
  p.k = product ? r.x.view.cols : 1;
  p.dtype = r.x.view.dtype;
  p.bias = r.bias.has_value();
  p.activation = r.activation;
  p.rows = r.split.rows;
  if (call.out) {
    r.out.emplace(op, "out", *call.out, r.rows, r.out_units, p.n[0], place.device);
  } else {
    r.out.emplace(r.x.tensor, r.out_units * r.rows.inner, p.n[0], place.device);
  }
  return r;
}

template <class Run>
Tensor run(Reduce& r, const Place& place, const Run& call) {
  GemmReduceArgs args;
  args.m = r.problem.m;
  args.x = r.x.view;
  if (r.weight) args.weight = r.weight->view;
  if (r.bias) args.bias = r.bias->view;
  args.activation = r.activation;
  args.out = r.out->view();
  args.rows = r.split.rows;
  args.stream = place.stream;
  place.member->make_room(r.problem);
  call(place.communicator(), args);
  return shaped_as(r.rows, r.out->finish(), r.out_units);
}

}  // namespace

std::tuple<std::optional<Tensor>, Tensors> ag_gemm(const GatherCall& call) {
  const Place place = place_of(Op::ag_gemm, call.x, call.group);
  Gather g = checked_here(place, [&] { return lay_out(call, place, true); });
  run(g, place, [](Communicator& c, const AgGemmArgs& a) { tilelace::ag_gemm(c, a); });
  Tensors outs;
  for (auto& o : g.outs) outs.push_back(shaped_as(g.rows, o.finish(), g.split.total));
  std::optional<Tensor> gathered;
  if (g.gathered) gathered = shaped_as(g.rows, g.gathered->finish(), g.split.total);
  return {gathered, outs};
}

Tensor gemm_reduce(const ReduceCall& call) {
  const Place place = place_of(call.op, call.x, call.group);
  Reduce r = checked_here(place, [&] { return lay_out(call, place, true); });
  return run(r, place, [&](Communicator& c, const GemmReduceArgs& a) {
    call.op == Op::gemm_rs ? tilelace::gemm_rs(c, a) : tilelace::gemm_ar(c, a);
  });
}

Tensor all_gather(const GatherCall& call) {
  const Place place = place_of(Op::ag_gemm, call.x, call.group);
  Gather g = checked_here(place, [&] { return lay_out(call, place, false); });
  run(g, place, [](Communicator& c, const AgGemmArgs& a) { collective_only(c, a); });
  return shaped_as(g.rows, g.gathered->finish(), g.split.total);
}

Tensor reduce_scatter(const ReduceCall& call) {
  const Place place = place_of(Op::gemm_rs, call.x, call.group);
  Reduce r = checked_here(place, [&] { return lay_out(call, place, false); });
  return run(r, place,
             [](Communicator& c, const GemmReduceArgs& a) { collective_only(c, Op::gemm_rs, a); });
}

}  // namespace tilelace::torch_binding
