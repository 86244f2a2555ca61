// SPDX-License-Identifier: Apache-2.0
// What one rank's calls of a problem take on a GPU and must come to: operands, results amid guard
// bytes, and a reference of operands that the rank makes itself.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "conformance/shape.h"
#include "conformance/values.h"
#include "tilelace/tensor.h"

namespace tilelace::gpu_test {

using test::borders_of;
using test::OpShape;
using test::owner_of;

/// Where operands come from: device memory of so many bytes, aligned to 256, which outlives them.
struct OperandMemory {
  std::function<void*(std::size_t bytes)> make;
  std::function<void*(std::size_t bytes)> make_results;
};

class Operands {
 public:
  /// `exact`: small integers, results bit for bit; else normal variates and fp64.
  Operands(const Problem& problem, int rank, bool exact, cudaStream_t stream,
           const OperandMemory& memory);

  /// How often a rank's part of a sum is rounded on its way; else once.
  void expect_roundings(int roundings) { roundings_ = roundings; }

  /// Weights, biases, the residual; as all that follows enqueued, and of a seed that is the same on
  /// every rank.
  void fill_weights(std::uint64_t seed);
  /// Inputs; poison in the results.
  void fill(std::uint64_t seed);
  /// The test of the test: without this rank's input, or without a rank's part in the reference.
  void drop_input();
  void drop_reference(int rank);

  /// As a call takes them; `gathered` and `residual` are empty where the problem has none.
  struct Views {
    TensorView input, gathered, residual;
    std::vector<TensorView> weights, biases, outs;
    TensorView all_rows;  ///< ag_gemm: the input of all ranks, made by this one
  };
  [[nodiscard]] const Views& views() const { return views_; }
  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] const OpShape& shape() const { return shape_; }
  [[nodiscard]] bool exact() const { return exact_; }
  /// All of the results with what lies around them; each alone: outs, then gathered.
  [[nodiscard]] std::span<std::byte> results() const { return results_; }
  [[nodiscard]] const std::vector<std::span<std::byte>>& pieces() const { return pieces_; }

  /// What result i must come to. Is good as long as the operands are.
  [[nodiscard]] test::Judged judged(std::size_t i) const;
  /// What is wrong with any of them, or around them; empty: nothing. The stream's work must be
  /// done. `worst`: is raised to the relative error against fp64, of larger results without
  /// activation.
  [[nodiscard]] std::string check(double* worst = nullptr) const;
  /// Unless no result has been written.
  [[nodiscard]] std::string check_untouched() const;

 private:
  using Troubles = std::vector<std::string>;
  void fill_rows(void* to, std::int64_t rows, std::int64_t cols, int per_row, std::uint64_t seed,
                 std::int64_t first_row) const;
  void check_out(std::size_t i, Troubles& troubles, double* worst) const;
  void check_gathered(Troubles& troubles) const;
  void check_guards(Troubles& troubles) const;

  Problem problem_;
  int rank_;
  OpShape shape_;
  std::vector<std::int64_t> borders_;
  bool exact_;
  cudaStream_t stream_;
  int roundings_ = 1;
  std::byte* reference_;             ///< the operand of each part
  std::vector<std::byte*> weights_;  ///< of each part
  Views views_;
  std::span<std::byte> results_;
  std::vector<std::span<std::byte>> pieces_;
};

}  // namespace tilelace::gpu_test
