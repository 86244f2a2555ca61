// SPDX-License-Identifier: Apache-2.0
// The rows of the table: ag_gemm gathers A[m / ranks, h] and multiplies by W[f / ranks, h] (layer
// up) or by two of them (gate_up); gemm_rs and gemm_ar multiply X[m, f / ranks] by W[h, f / ranks]
// and sum (down).
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/check.h"
#include "gemm/rows.h"
#include "tilelace/plan.h"

namespace tilelace::gpu_test {

struct Row {
  std::string model;
  std::string layer;
  Op op = Op::ag_gemm;
  int ranks = 1;
  std::int64_t m = 0;
  std::int64_t n = 0, k = 0;  ///< of the unsharded product, all weights together
  int weights = 1;            ///< of equal size, on one gather
  /// Of one rank, all weights in one product; m filled up to a multiple of ranks.
  plan::GemmProblem gemm;

  /// As the fused op sees it: m as it is.
  [[nodiscard]] Problem problem() const {
    Problem p;
    p.op = op;
    p.ranks = ranks;
    p.m = m;
    p.n.assign(static_cast<std::size_t>(weights), gemm.n / weights);
    p.k = gemm.k;
    p.dtype = gemm.dtype;
    return p;
  }
  /// Columns of what the collective moves.
  [[nodiscard]] std::int64_t hidden() const { return op == Op::ag_gemm ? gemm.k : gemm.n; }
  [[nodiscard]] std::int64_t shard_rows() const { return gemm.m / ranks; }
  [[nodiscard]] std::size_t shard_elements() const {
    return static_cast<std::size_t>(shard_rows() * hidden());
  }
  [[nodiscard]] std::size_t bytes_of(std::int64_t rows, std::int64_t cols) const {
    return static_cast<std::size_t>(rows * cols) * size_of(gemm.dtype);
  }
  [[nodiscard]] std::size_t shard_bytes() const { return bytes_of(shard_rows(), hidden()); }
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

/// gate_up is left out where the model's MLP has no gate.
inline std::vector<Row> bench_rows(const std::vector<Op>& ops,
                                   const std::vector<std::string>& models,
                                   const std::vector<std::string>& layers, int ranks,
                                   const std::vector<std::int64_t>& ms) {
  std::vector<Row> rows;
  const auto add = [&](const test::GemmRow& g, Op op, const std::string& layer, int weights) {
    Row row{g.model, layer, op, ranks, g.problem.m, g.n * weights, g.k, weights, g.problem};
    row.gemm.m = (row.m + ranks - 1) / ranks * ranks;
    row.gemm.n *= weights;
    rows.push_back(row);
  };
  for (const test::GemmRow& g : test::gemm_rows(models, {ranks}, ms, DType::bf16))
    for (const Op op : ops) {
      if ((op == Op::ag_gemm) != (g.side == "ag")) continue;
      const std::int64_t cut = op == Op::ag_gemm ? g.n : g.k;
      require(cut % (8 * ranks) == 0, "--ranks: got {}, expected {} to be a multiple of 8 times it",
              ranks, cut);
      if (op != Op::ag_gemm) add(g, op, "down", 1);
      for (const std::string& layer : layers) {
        if (op != Op::ag_gemm || (layer == "gate_up" && g.model == "gpt3")) continue;
        add(g, op, layer, layer == "gate_up" ? 2 : 1);
      }
    }
  return rows;
}

}  // namespace tilelace::gpu_test
