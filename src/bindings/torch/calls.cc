// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/calls.h"

#include <array>

#include "bindings/torch/places.h"

namespace tilelace::torch_binding {
namespace {

/// A call that is wrong here alone would prepare while the peers, who make the right one, do not.
template <class Check>
void make_room(const Problem& problem, const Place& place, bool product, const Check& check) {
  if (product && !place.member->has_room(problem)) checked_here(place, check);
  place.member->make_room(problem);
}

std::vector<TensorView> views_of(const std::vector<Matrix>& matrices) {
  std::vector<TensorView> views;
  for (const auto& m : matrices) views.push_back(m.view);
  return views;
}

/// [n, k] of a call whose k is known.
Matrix weight_of(std::string_view op, const std::string& name, const Tensor& weight, int64_t k,
                 Device device) {
  require_tensor(op, name, weight);
  if (weight.dim() != 2) wrong(op, name, shape_of(weight), "[n, k]");
  if (weight.size(1) != k) {
    wrong(op, name, shape_of(weight), shape_of(std::array{weight.size(0), k}));
  }
  return matrix_of(op, name, weight, device);
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

/// Staged results are copied to where they are wanted: one there would be the other's.
void check_apart(const Tensors& outs) {
  for (std::size_t i = 0; i < outs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (outs[i].numel() > 0 && outs[i].const_data_ptr() == outs[j].const_data_ptr()) {
        wrong("ag_gemm", "out " + std::to_string(i), "the memory of out " + std::to_string(j),
              "memory of its own");
      }
    }
  }
}

void add_results(Gather& g, const GatherCall& call, const Place& place) {
  const std::size_t outs = g.problem.outputs();
  if (call.out && call.out->size() != outs) {
    wrong("ag_gemm", "out", std::to_string(call.out->size()), std::to_string(outs));
  }
  if (call.out) check_apart(*call.out);
  for (std::size_t i = 0; i < outs; ++i) {
    if (!call.out) {
      g.outs.emplace_back(g.rows, g.split.total, g.problem.n[i], place.device);
    } else {
      g.outs.emplace_back("ag_gemm", "out " + std::to_string(i), (*call.out)[i], g.rows,
                          g.split.total, g.problem.n[i], place.device);
    }
  }
  if (!g.problem.return_gathered) return;
  if (!call.gathered) {
    g.gathered.emplace(g.rows, g.split.total, g.problem.k, place.device);
  } else {
    g.gathered.emplace("ag_gemm", "gathered", *call.gathered, g.rows, g.split.total, g.problem.k,
                       place.device);
  }
}

Gather lay_out(const GatherCall& call, const Place& place, bool product) {
  constexpr std::string_view op = "ag_gemm";
  Gather g{rows_of(op, call.x, call.dim), {}, {}, {}, {}, {}, {}, Activation::none, {}};
  g.split = gather_split(call, g.rows, place);
  g.x = matrix_of(op, "x", g.rows.matrix, place.device);
  g.activation = activation_of(op, call.activation);
  for (std::size_t i = 0; i < call.weights.size(); ++i) {
    const auto name = "weight " + std::to_string(i);
    g.weights.push_back(weight_of(op, name, call.weights[i], g.x.view.cols, place.device));
  }
  for (std::size_t i = 0; call.biases && i < call.biases->size(); ++i) {
    const auto& bias = (*call.biases)[i];
    const auto name = "bias " + std::to_string(i);
    require_tensor(op, name, bias);
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
    g.gathered.emplace(g.rows, g.split.total, p.k, place.device);
  }
  return g;
}

template <class Run>
void run(const Gather& g, const Place& place, bool product, const Run& call) {
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
  make_room(g.problem, place, product, [&] { check_call(place.communicator(), args); });
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
  r.split = reduce_split(call, r.rows, place.ranks);
  r.out_units = scatter ? r.split.units[static_cast<std::size_t>(place.rank)] : r.rows.units;
  r.x = matrix_of(op, "x", r.rows.matrix, place.device);
  r.activation = activation_of(op, call.activation);
  if (product) r.weight = weight_of(op, "weight", call.weight, r.x.view.cols, place.device);
  if (call.bias) {
    require_tensor(op, "bias", *call.bias);
    if (call.bias->dim() != 1) wrong(op, "bias", shape_of(*call.bias), "[n]");
    r.bias = matrix_of(op, "bias", *call.bias, place.device);
  }
  Problem& p = r.problem;
  p.op = call.op;
  p.ranks = place.ranks;
  p.m = r.x.view.rows;
  p.n = {product ? r.weight->view.rows : r.x.view.cols};
  p.k = product ? r.x.view.cols : 8;  // of a sum alone any will do that every backend takes
  p.dtype = r.x.view.dtype;
  p.bias = r.bias.has_value();
  p.activation = r.activation;
  p.rows = r.split.rows;
  if (call.out) {
    r.out.emplace(op, "out", *call.out, r.rows, r.out_units, p.n[0], place.device);
  } else {
    r.out.emplace(r.rows, r.out_units, p.n[0], place.device);
  }
  return r;
}

template <class Run>
Tensor run(Reduce& r, const Place& place, bool product, const Run& call) {
  GemmReduceArgs args;
  args.m = r.problem.m;
  args.x = r.x.view;
  if (r.weight) args.weight = r.weight->view;
  if (r.bias) args.bias = r.bias->view;
  args.activation = r.activation;
  args.out = r.out->view();
  args.rows = r.split.rows;
  args.stream = place.stream;
  make_room(r.problem, place, product,
            [&] { check_call(place.communicator(), r.problem.op, args); });
  call(place.communicator(), args);
  return r.out->finish();
}

}  // namespace

std::tuple<std::optional<Tensor>, Tensors> ag_gemm(const GatherCall& call) {
  const Place place = place_of(Op::ag_gemm, call.x, call.group);
  Gather g = checked_here(place, [&] { return lay_out(call, place, true); });
  run(g, place, true, [](Communicator& c, const AgGemmArgs& a) { tilelace::ag_gemm(c, a); });
  Tensors outs;
  for (auto& o : g.outs) outs.push_back(o.finish());
  std::optional<Tensor> gathered;
  if (g.gathered) gathered = g.gathered->finish();
  return {gathered, outs};
}

Tensor gemm_reduce(const ReduceCall& call) {
  const Place place = place_of(call.op, call.x, call.group);
  Reduce r = checked_here(place, [&] { return lay_out(call, place, true); });
  return run(r, place, true, [&](Communicator& c, const GemmReduceArgs& a) {
    call.op == Op::gemm_rs ? tilelace::gemm_rs(c, a) : tilelace::gemm_ar(c, a);
  });
}

Tensor all_gather(const GatherCall& call) {
  const Place place = place_of(Op::ag_gemm, call.x, call.group);
  Gather g = checked_here(place, [&] { return lay_out(call, place, false); });
  run(g, place, false, [](Communicator& c, const AgGemmArgs& a) { collective_only(c, a); });
  return g.gathered->finish();
}

Tensor reduce_scatter(const ReduceCall& call) {
  const Place place = place_of(Op::gemm_rs, call.x, call.group);
  Reduce r = checked_here(place, [&] { return lay_out(call, place, false); });
  return run(r, place, false,
             [](Communicator& c, const GemmReduceArgs& a) { collective_only(c, Op::gemm_rs, a); });
}

}  // namespace tilelace::torch_binding
