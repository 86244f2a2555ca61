// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/calls.h"

#include <array>

#include "bindings/torch/places.h"

namespace tilelace::torch_binding {
namespace {

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

Matrix bias_of(std::string_view op, const std::string& name, const Tensor& bias, Device device) {
  require_tensor(op, name, bias);
  if (bias.dim() != 1) wrong(op, name, shape_of(bias), "[n]");
  return matrix_of(op, name, bias, device);
}

/// Staged results are copied to where they are wanted: one there would be the other's.
void check_apart(std::string_view op, const Tensors& outs) {
  for (std::size_t i = 0; i < outs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (outs[i].numel() > 0 && outs[i].const_data_ptr() == outs[j].const_data_ptr()) {
        wrong(op, "out " + std::to_string(i) + " overlaps out " + std::to_string(j) +
                      ": each needs memory of its own");
      }
    }
  }
}

/// What the operands of a call look into.
struct Laid {
  Rows rows;
  Split split;
  Matrix x;
  std::vector<Matrix> weights = {}, biases = {};
  std::vector<Result> outs = {};
  std::optional<Result> gathered = {};
  std::optional<Matrix> residual = {};
  std::vector<TensorView> weight_views = {}, bias_views = {}, out_views = {};
  CallArgs args = {};
};

/// A call's tensors and its problem, made once.
class Layout {
 public:
  Layout(const OpCall& call, const Place& place, bool product)
      : call_(call),
        op_(row_of(call.op)),
        place_(place),
        product_(product),
        laid_{rows_of(op_.name, call.x, call.dim), split_of(call, laid_.rows, place),
              matrix_of(op_.name, "x", laid_.rows.matrix, place.device)} {
    const auto activation = activation_of(op_.name, call.activation);
    add_weights();
    set_problem(activation);
    add_results();
    add_residual();
    set_operands();
  }
  Laid take() && { return std::move(laid_); }

 private:
  [[nodiscard]] std::string name(const char* what, std::size_t i) const {
    std::string text = what;
    if (op_.many()) text.append(" ").append(std::to_string(i));
    return text;
  }

  void add_weights() {
    for (std::size_t i = 0; i < call_.weights.size(); ++i) {
      laid_.weights.push_back(weight_of(op_.name, name("weight", i), call_.weights[i],
                                        laid_.x.view.cols, place_.device));
    }
    for (std::size_t i = 0; call_.biases && i < call_.biases->size(); ++i) {
      laid_.biases.push_back(bias_of(op_.name, name("bias", i), (*call_.biases)[i], place_.device));
    }
  }

  void set_problem(Activation activation) {
    const TensorView& x = laid_.x.view;
    Problem& p = laid_.args.problem;
    p.op = op_.op;
    p.ranks = place_.ranks;
    p.m = laid_.split.total * laid_.rows.inner;
    for (const auto& w : laid_.weights) p.n.push_back(w.view.rows);
    if (!product_ || !op_.multiplies()) p.n = {x.cols};
    if (p.n.empty()) wrong(op_.name, "weights", "none", "at least one");
    p.k = x.cols;
    p.dtype = x.dtype;
    p.bias = !laid_.biases.empty();
    p.residual = call_.residual.has_value();
    p.activation = activation;
    p.return_gathered = call_.return_gathered;
    p.rows = laid_.split.rows;
    if (!product_) p = collective_of(std::move(p));
  }

  void add(std::vector<Result>& to, const std::string& what, const Tensor* given, int64_t units,
           int64_t cols) {
    if (given == nullptr)
      to.emplace_back(laid_.rows, units, cols, place_.device);
    else
      to.emplace_back(op_.name, what, *given, laid_.rows, units, cols, place_.device);
  }

  void add_results() {
    const Problem& p = laid_.args.problem;
    const auto& [units, rows, total] = laid_.split;
    if (product_ || op_.sums) {
      const std::size_t outs = p.outputs();
      if (call_.out && call_.out->size() != outs) {
        wrong(op_.name, "out", std::to_string(call_.out->size()), std::to_string(outs));
      }
      if (call_.out) check_apart(op_.name, *call_.out);
      const bool own = op_.operand(Role::out)->rows == Extent::m_r;
      for (std::size_t i = 0; i < outs; ++i) {
        add(laid_.outs, name("out", i), call_.out ? &(*call_.out)[i] : nullptr,
            own ? units[static_cast<std::size_t>(place_.rank)] : total, p.n[i]);
      }
    }
    if (!p.return_gathered) return;
    std::vector<Result> gathered;
    add(gathered, "gathered", call_.gathered ? &*call_.gathered : nullptr, total, p.k);
    laid_.gathered = std::move(gathered.front());
  }

  void add_residual() {
    if (!call_.residual) return;
    const Tensor& given = *call_.residual;
    const Tensor& x = call_.x;
    require_place(op_.name, "residual", given, place_.device);
    std::vector<int64_t> size;
    for (int64_t d = 0; d < x.dim(); ++d) size.push_back(x.size(d));
    const bool own = op_.operand(Role::out)->rows == Extent::m_r;
    const auto& [units, rows, total] = laid_.split;
    size[static_cast<std::size_t>(laid_.rows.dim)] =
        own ? units[static_cast<std::size_t>(place_.rank)] : total;
    size.back() = laid_.args.problem.n[0];
    if (shape_of(given) != shape_of(size)) {
      wrong(op_.name, "residual", shape_of(given), shape_of(size));
    }
    const Rows residual = rows_of(op_.name, given, laid_.rows.dim);
    laid_.residual = matrix_of(op_.name, "residual", residual.matrix, place_.device);
  }

  void set_operands() {
    for (const auto& w : laid_.weights) laid_.weight_views.push_back(w.view);
    for (const auto& b : laid_.biases) laid_.bias_views.push_back(b.view);
    for (const auto& o : laid_.outs) laid_.out_views.push_back(o.view());
    laid_.args.operands = {laid_.x.view, laid_.weight_views, laid_.bias_views, laid_.out_views,
                           {},           place_.stream};
    if (laid_.gathered) laid_.args.operands.gathered = laid_.gathered->view();
    if (laid_.residual) laid_.args.operands.residual = laid_.residual->view;
  }

  const OpCall& call_;
  const OpRow& op_;
  const Place& place_;
  bool product_;
  Laid laid_;
};

OpResults run(const OpCall& call, bool product) {
  const Place place = place_of(name_of(call.op), call.x, call.group);
  Laid laid = checked_here(place, [&] { return Layout(call, place, product).take(); });
  Communicator& c = place.communicator();
  const Problem& problem = laid.args.problem;
  const PlanOptions choices = product ? place.member->choices_of(call.op) : PlanOptions{};
  if (!place.member->has_room(problem, choices)) {
    // A call that is wrong here alone would prepare while the peers, who make the right one, do
    // not.
    if (product) checked_here(place, [&] { check_call(c, laid.args, choices); });
    place.member->make_room(problem, choices);
  }
  product ? tilelace::call(c, laid.args, choices) : collective_only(c, laid.args);
  OpResults results;
  for (auto& o : laid.outs) results.outs.push_back(o.finish());
  if (laid.gathered) results.gathered = laid.gathered->finish();
  return results;
}

}  // namespace

OpResults call(const OpCall& call) { return run(call, true); }

Tensor collective(const OpCall& call) {
  auto results = run(call, false);
  return results.gathered ? *results.gathered : results.outs.front();
}

}  // namespace tilelace::torch_binding
