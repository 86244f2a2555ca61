// SPDX-License-Identifier: Apache-2.0
// The table of ops, one row each. Code that depends on the op reads the op's row. The `tilelace`
// command, bindings, checks of tensors and the generator of docs/ops.md loop over all rows.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tilelace/choices.h"

namespace tilelace {

/// An extent of an operand. `one`: 1. `m`: rows of all ranks together. `m_r`: rows of this rank's
/// shard. `n`: columns of this rank's product with one weight. `k`: that product's inner extent.
enum class Extent : std::uint8_t { one, m, m_r, n, k };

/// What a call uses an operand for: `input` (a or x), `weight`, `bias`, `residual`, `out`, or
/// `gathered` (ag_gemm's gathered input).
enum class Role : std::uint8_t { input, weight, bias, residual, out, gathered };

/// Facts about an operand: its `role` and its shape, `rows` x `cols`.
struct OperandRow {
  Role role;
  std::string_view name;  ///< the name in docs/ops.md and in tilelace_operand (C)
  Extent rows, cols;
  bool many = false;      ///< there is one per weight (swiglu: one result for two weights)
  bool optional = false;  ///< may be absent

  /// Whether the call writes the operand.
  [[nodiscard]] constexpr bool output() const {
    return role == Role::out || role == Role::gathered;
  }
};

/// Facts about an op.
struct OpRow {
  Op op;                                      ///< the op that the row is for
  std::string_view name;                      ///< the name in the command and in records
  std::string_view help;                      ///< one line for --help and docs/ops.md
  std::string_view collective;                ///< name of the collective that the op contains
  bool gathers = false;                       ///< the op all-gathers the input before the product
  bool sums = false;                          ///< the op adds the partial products of all ranks
  bool shares = false;                        ///< every rank gets all finished sums
  std::span<const OperandRow> operands = {};  ///< first the inputs, then the results

  /// The op's first operand of this role; null if there is none.
  [[nodiscard]] constexpr const OperandRow* operand(Role role) const {
    const auto at = std::find_if(operands.begin(), operands.end(),
                                 [&](const OperandRow& o) { return o.role == role; });
    return at == operands.end() ? nullptr : &*at;
  }
  /// Whether each rank keeps only the finished sums of its own rows.
  [[nodiscard]] constexpr bool scatters() const { return sums && !shares; }
  /// Whether rows are multiplied by weights. If not, a result is as wide as the input (n is k).
  [[nodiscard]] constexpr bool multiplies() const { return operand(Role::weight) != nullptr; }
  /// Whether the op takes several weights and gives a result for each.
  [[nodiscard]] constexpr bool many() const {
    const OperandRow* weight = operand(Role::weight);
    return weight != nullptr && weight->many;
  }
  /// Whether some operand has only this rank's rows. If so, a call may say how many each rank has.
  [[nodiscard]] constexpr bool shards() const {
    return std::any_of(operands.begin(), operands.end(),
                       [](const OperandRow& o) { return o.rows == Extent::m_r; });
  }
  /// How often a call moves m rows: once; or twice if partials go to owners, then sums to all.
  [[nodiscard]] constexpr int phases() const { return shares ? 2 : 1; }
};

namespace detail {

inline constexpr std::array kAgGemm{
    OperandRow{Role::input, "a", Extent::m_r, Extent::k},
    OperandRow{Role::weight, "weight", Extent::n, Extent::k, true},
    OperandRow{Role::bias, "bias", Extent::one, Extent::n, true, true},
    OperandRow{Role::out, "out", Extent::m, Extent::n, true},
    OperandRow{Role::gathered, "gathered", Extent::m, Extent::k, false, true},
};

constexpr std::array<OperandRow, 5> sum_operands(Extent out_rows) {
  return {{{Role::input, "x", Extent::m, Extent::k},
           {Role::weight, "weight", Extent::n, Extent::k},
           {Role::bias, "bias", Extent::one, Extent::n, false, true},
           {Role::residual, "residual", out_rows, Extent::n, false, true},
           {Role::out, "out", out_rows, Extent::n}}};
}
inline constexpr auto kGemmRs = sum_operands(Extent::m_r);
inline constexpr auto kGemmAr = sum_operands(Extent::m);

inline constexpr std::array kOps{
    OpRow{.op = Op::ag_gemm,
          .name = "ag_gemm",
          .help = "all-gather and product: rows of all ranks times this rank's weights",
          .collective = "all_gather",
          .gathers = true,
          .operands = kAgGemm},
    OpRow{.op = Op::gemm_rs,
          .name = "gemm_rs",
          .help = "product and reduce-scatter: each rank's rows of the sum of all products",
          .collective = "reduce_scatter",
          .sums = true,
          .operands = kGemmRs},
    OpRow{.op = Op::gemm_ar,
          .name = "gemm_ar",
          .help = "product and all-reduce: the sum of all products, on every rank",
          .collective = "all_reduce",
          .sums = true,
          .shares = true,
          .operands = kGemmAr},
};

/// The row for a number that is not an op; check_problem refuses such a number.
inline constexpr OpRow kNoOp{
    .op = static_cast<Op>(255), .name = "unknown op", .help = "", .collective = ""};

}  // namespace detail

/// Row i is for the op whose enum value is i.
constexpr std::span<const OpRow> op_table() { return detail::kOps; }

/// The row of an op; for a value that names no op, the row named "unknown op".
constexpr const OpRow& row_of(Op op) {
  const auto i = static_cast<std::size_t>(op);
  return i < detail::kOps.size() ? detail::kOps[i] : detail::kNoOp;
}

/// The op of that name, if there is one.
constexpr std::optional<Op> op_of(std::string_view name) {
  for (const OpRow& row : op_table())
    if (row.name == name) return row.op;
  return std::nullopt;
}

/// The first op with these values of `sums` and `shares`.
constexpr Op op_that(bool sums, bool shares) {
  for (const OpRow& row : op_table())
    if (row.sums == sums && row.shares == shares) return row.op;
  return detail::kNoOp.op;
}

/// All names as one text: "ag_gemm, gemm_rs or gemm_ar". Errors: none.
std::string names_of_ops();

static_assert([] {
  for (std::size_t i = 0; i < detail::kOps.size(); ++i)
    if (static_cast<std::size_t>(detail::kOps[i].op) != i) return false;
  return true;
}());

}  // namespace tilelace
