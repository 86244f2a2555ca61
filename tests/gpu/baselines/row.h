// SPDX-License-Identifier: Apache-2.0
// The rows of the table: ag_gemm gathers A[m / ranks, h] and multiplies by W[f / ranks, h]; gemm_rs
// and gemm_ar multiply X[m, f / ranks] by W[h, f / ranks] and sum.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/check.h"
#include "gemm/rows.h"
#include "tilelace/plan.h"

namespace tilelace::gpu_test {

struct Row {
  std::string model;
  Op op = Op::ag_gemm;
  int ranks = 1;
  std::int64_t m = 0;
  std::int64_t n = 0, k = 0;  ///< of the unsharded product
  plan::GemmProblem gemm;     ///< of one rank; m filled up to a multiple of ranks

  /// Columns of what the collective moves.
  [[nodiscard]] std::int64_t hidden() const { return op == Op::ag_gemm ? gemm.k : gemm.n; }
  [[nodiscard]] std::size_t shard_elements() const {
    return static_cast<std::size_t>(gemm.m / ranks * hidden());
  }
  [[nodiscard]] std::size_t bytes_of(std::int64_t rows, std::int64_t cols) const {
    return static_cast<std::size_t>(rows * cols) * size_of(gemm.dtype);
  }
  /// The gathered operand, or the partial sums.
  [[nodiscard]] std::size_t moved_bytes() const { return bytes_of(gemm.m, hidden()); }
  /// What the reducing collectives write.
  [[nodiscard]] std::size_t result_bytes() const {
    if (op == Op::ag_gemm) return 0;
    return op == Op::gemm_rs ? bytes_of(gemm.m / ranks, hidden()) : moved_bytes();
  }
  [[nodiscard]] std::size_t weight_bytes() const { return bytes_of(gemm.n, gemm.k); }
  /// The tensor that stays on its rank: ag_gemm's result, the others' input.
  [[nodiscard]] std::size_t kept_bytes() const {
    return bytes_of(gemm.m, op == Op::ag_gemm ? gemm.n : gemm.k);
  }
  /// What a GPU has to send, and to receive.
  [[nodiscard]] double wire_bytes() const {
    const double all = static_cast<double>(bytes_of(m, hidden()));
    return all * (ranks - 1) / ranks * (op == Op::gemm_ar ? 2 : 1);
  }
};

inline std::vector<Row> baseline_rows(const std::vector<Op>& ops,
                                      const std::vector<std::string>& models, int ranks,
                                      const std::vector<std::int64_t>& ms) {
  std::vector<Row> rows;
  for (const test::GemmRow& g : test::gemm_rows(models, {ranks}, ms, DType::bf16))
    for (const Op op : ops) {
      if ((op == Op::ag_gemm) != (g.side == "ag")) continue;
      const std::int64_t cut = op == Op::ag_gemm ? g.n : g.k;
      require(cut % (8 * ranks) == 0, "--ranks: got {}, expected {} to be a multiple of 8 times it",
              ranks, cut);
      Row row{g.model, op, ranks, g.problem.m, g.n, g.k, g.problem};
      row.gemm.m = (row.m + ranks - 1) / ranks * ranks;
      rows.push_back(row);
    }
  return rows;
}

}  // namespace tilelace::gpu_test
