// SPDX-License-Identifier: Apache-2.0
#include "op/tensors.h"

#include "core/check.h"
#include "plan/base/problem.h"
#include "schedule/rows.h"
#include "tilelace/op_table.h"

namespace tilelace::op {
namespace {

constexpr std::int64_t kAlignment = 16;

std::int64_t bytes_spanned(const TensorView& t) {
  if (t.rows == 0 || t.cols == 0) return 0;
  return ((t.rows - 1) * t.stride + t.cols) * static_cast<std::int64_t>(size_of(t.dtype));
}

}  // namespace

void check_tensor(std::string_view op, TensorName name, const TensorView& t, DType dtype,
                  std::int64_t rows, std::int64_t cols) {
  if (!is_known(t.dtype))
    raise(ErrorKind::usage, "{}: {}: got an unknown dtype {}, expected {}", op, name,
          static_cast<int>(t.dtype), names_of_dtypes());
  require(t.dtype == dtype, "{}: {}: got {}, expected {}", op, name, name_of(t.dtype),
          name_of(dtype));
  const bool turned = name.kind == "weight" && t.cols != cols && t.rows == cols;
  require(t.rows == rows && t.cols == cols, "{}: {}: got [{}, {}], expected [{}, {}]{}", op, name,
          t.rows, t.cols, rows, cols, turned ? ": weights are [n, k], is it transposed?" : "");
  if (rows == 0 || cols == 0) return;
  require(t.data != nullptr, "{}: {}: got null data, expected a [{}, {}] matrix", op, name, rows,
          cols);
  require(t.stride >= cols, "{}: {}: got a row stride of {}, expected at least {}", op, name,
          t.stride, cols);
  require(t.stride <= plan::kMaxExtent, "{}: {}: got a row stride of {}, expected at most {}", op,
          name, t.stride, plan::kMaxExtent);
  const auto address = reinterpret_cast<std::uintptr_t>(t.data);
  require(address % kAlignment == 0, "{}: {}: got data {} bytes off, expected {}-byte alignment",
          op, name, address % kAlignment, kAlignment);
  const auto row_bytes = t.stride * static_cast<std::int64_t>(size_of(dtype));
  require(rows == 1 || row_bytes % kAlignment == 0,
          "{}: {}: got rows {} bytes apart, expected a multiple of {}", op, name, row_bytes,
          kAlignment);
  std::int64_t last = 0;
  require(!__builtin_mul_overflow(rows, row_bytes, &last),
          "{}: {}: got {} rows {} bytes apart, expected a span under 2^63 bytes", op, name, rows,
          row_bytes);
}

namespace {

/// A tensor and what texts call it.
struct Named {
  TensorName name;
  TensorView view;
};

void check_apart(std::string_view op, const Named& a, const Named& b) {
  const auto begin_a = reinterpret_cast<std::uintptr_t>(a.view.data);
  const auto begin_b = reinterpret_cast<std::uintptr_t>(b.view.data);
  const auto end_a = begin_a + static_cast<std::uintptr_t>(bytes_spanned(a.view));
  const auto end_b = begin_b + static_cast<std::uintptr_t>(bytes_spanned(b.view));
  if (begin_a == end_a || begin_b == end_b) return;
  require(end_a <= begin_b || end_b <= begin_a, "{}: {} and {} overlap: pass separate tensors", op,
          a.name, b.name);
}

/// Rows of this rank's shard.
std::int64_t shard_rows(const Problem& p, int rank) {
  if (!p.rows.empty()) return p.rows[rank];
  return schedule::RowSplit{p.m, p.ranks, nullptr}.shard(rank).size();
}

/// The tensors of an operand, and how many there have to be.
struct Given {
  std::span<const TensorView> tensors;
  std::size_t count = 1;
};

Given given(const CallArgs& call, const OpRow& op, const OperandRow& operand, Part part) {
  const Operands& o = call.operands;
  const Problem& p = call.problem;
  const bool alone = part == Part::collective;
  switch (operand.role) {
    case Role::input: return {{&o.input, 1}};
    case Role::weight: return {o.weights, alone ? 0 : p.n.size()};
    case Role::bias: return {o.bias, p.bias ? p.n.size() : 0};
    case Role::residual: return {{&o.residual, p.residual ? 1U : 0U}, p.residual ? 1U : 0U};
    case Role::out: return {o.out, alone && op.gathers ? 0 : p.outputs()};
    case Role::gathered:
      return {{&o.gathered, p.return_gathered ? 1U : 0U}, p.return_gathered ? 1U : 0U};
  }
  return {};
}

}  // namespace

void check_operands(const CallArgs& call, int rank, Part part) {
  const Problem& p = call.problem;
  const OpRow& op = row_of(p.op);
  require(op.multiplies() || call.operands.weights.empty(),
          "{}: weights: got {}, expected none: the op has no product", op.name,
          call.operands.weights.size());
  // A product alone has all rows there.
  const std::int64_t own = part == Part::gemm ? p.m : shard_rows(p, rank);
  const auto extent = [&](Extent side, std::size_t i) {
    return side == Extent::one   ? 1
           : side == Extent::m   ? p.m
           : side == Extent::m_r ? own
           : side == Extent::n   ? p.n[i]
                                 : p.k;
  };
  std::vector<Named> inputs, outputs;
  inputs.reserve(op.operands.size() + 2 * p.n.size());
  for (const OperandRow& operand : op.operands) {
    const auto [tensors, count] = given(call, op, operand, part);
    require(tensors.size() == count, "{}: {}: got {}, expected {}{}", op.name, operand.name,
            tensors.size(), operand.optional && count > 0 ? "none or " : "", count);
    const bool numbered =
        operand.many || operand.role == Role::weight || operand.role == Role::bias;
    // A sum alone has no terms: its input is the rank's part of the result.
    const bool partial = part == Part::collective && op.sums && operand.role == Role::input;
    for (std::size_t i = 0; i < count; ++i) {
      const TensorName name{operand.name, numbered ? i : TensorName::kOnly};
      check_tensor(op.name, name, tensors[i], p.dtype, extent(operand.rows, i),
                   extent(partial ? Extent::n : operand.cols, i));
      (operand.output() ? outputs : inputs).push_back({name, tensors[i]});
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (const auto& input : inputs) check_apart(op.name, input, outputs[i]);
    for (std::size_t j = 0; j < i; ++j) check_apart(op.name, outputs[j], outputs[i]);
  }
}

void check_preparation(const Preparation& p, int ranks) {
  plan::check_problem(p.problem);
  const auto op = name_of(p.problem.op);
  require(p.problem.ranks == ranks, "{}: ranks: got {}, expected the group's {}", op,
          p.problem.ranks, ranks);
  const std::size_t count = row_of(p.problem.op).multiplies() ? p.problem.n.size() : 0;
  require(p.weights.empty() || p.weights.size() == count,
          "{}: weights: got {}, expected {}, or none if calls bring their own", op,
          p.weights.size(), count);
  for (std::size_t i = 0; i < p.weights.size(); ++i) {
    check_tensor(op, {"weight", i}, p.weights[i], p.problem.dtype, p.problem.n[i], p.problem.k);
  }
}

}  // namespace tilelace::op
