// SPDX-License-Identifier: Apache-2.0
// Inputs and checks of the GEMM on the device: nothing of a matrix comes to the host.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "backend/cuda/measure/fill.h"
#include "plan/gemm.h"
#include "tilelace/plan.h"

namespace tilelace::test {

using cuda::measure::fill_normal;

/// {-1, 0, 1} with at most `per_row` non-zeros in a row of `cols`, hashed from seed and place;
/// `data` is what lies at row `first_row` of a larger matrix: the same on every device. Seeds
/// should lie far apart.
void fill_sparse(void* data, std::int64_t rows, std::int64_t cols, int per_row, DType,
                 std::uint64_t seed, cudaStream_t, std::int64_t first_row = 0);

/// NaN patterns.
void poison(void* data, std::size_t bytes, cudaStream_t);

struct Judgement {
  std::uint64_t checked = 0;
  std::uint64_t wrong = 0;          ///< elements outside their bound
  double error = 0;                 ///< sum of squared differences
  double norm = 0;                  ///< sum of squared references
  std::int64_t row = -1, col = -1;  ///< one wrong element
  double got = 0, expected = 0;
  std::int64_t first_row = -1, last_row = -1;  ///< with wrong elements
  [[nodiscard]] double relative() const;
};

/// A product over the k of several ranks, one behind the other: as many operands and weights.
struct Parts {
  int count = 1;
  std::int64_t a = 0, weight = 0;  ///< elements from part to part
  int roundings =
      0;  ///< to the elements' type, of each part's product or a sum of them, on the way
};

struct Judged {
  const void* a;
  const void* weight;
  const void* bias;
  const void* out;
  plan::GemmProblem problem;
  Activation activation;
  Parts parts = {};
  const void* up = nullptr;  ///< of a gated problem; its activation is swiglu
  const void* up_bias = nullptr;
  const void* residual = nullptr;  ///< like out, or null; added to the product
};

/// Compares out with a product in fp64: all of it, or `samples` hashed places. An element may be
/// off by u |y| + 16 * 2^-24 * sum |a w| (times the activation's slope); with `exact` by nothing.
/// With several parts it may be off by u of each of them, too, for every rounding; of a gated
/// problem gate and up by that each, and the result by what becomes of both. `skip_k`: leaves these
/// first k of each part out of the reference (the test of the test).
Judgement judge(const Judged&, std::int64_t samples, bool exact, std::int64_t skip_k, cudaStream_t);

struct Difference {
  std::uint64_t words = 0;  ///< of 16 bits, that differ
  std::int64_t first = -1, last = -1;
};

/// Bit by bit.
Difference compare(const void* got, const void* expected, std::size_t words, cudaStream_t);

/// Bytes among these that are not the poison.
std::uint64_t count_unpoisoned(const void* data, std::size_t bytes, cudaStream_t);

}  // namespace tilelace::test
