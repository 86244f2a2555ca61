// SPDX-License-Identifier: Apache-2.0
// Inputs and checks of the GEMM on the device: nothing of a matrix comes to the host.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "conformance/values.h"

namespace tilelace::test {

/// {-1, 0, 1} with at most `per_row` non-zeros in a row of `cols`, hashed from seed and place;
/// `data` is what lies at row `first_row` of a larger matrix: the same on every device. Seeds
/// should lie far apart.
void fill_sparse(void* data, std::int64_t rows, std::int64_t cols, int per_row, DType,
                 std::uint64_t seed, cudaStream_t, std::int64_t first_row = 0);

/// As normal_value says; `data` is what lies at element `first` of a larger tensor.
void fill_normal(void* data, std::size_t elements, DType, std::uint64_t seed, cudaStream_t,
                 std::size_t first = 0);

/// NaN patterns.
void poison(void* data, std::size_t bytes, cudaStream_t);

/// Compares out with a product in fp64: all of it, or `samples` hashed places. An element may be
/// off by u |y| + 16 * 2^-24 * sum |a w| (times the activation's slope); with `exact` by nothing.
/// With several parts it may be off by u of each of them, too, for every rounding; of a gated
/// problem gate and up by that each, and the result by what becomes of both. `skip_k`: leaves these
/// first k of each part out of the reference (the test of the test).
Judgement judge(const Judged&, std::int64_t samples, bool exact, std::int64_t skip_k, cudaStream_t);

/// What the judged results must be, into `out`, dense; sums must be exact.
void make_expected(const Judged&, void* out, cudaStream_t);

/// What is compared, bit by bit: words as wide as elements of GPUs.
inline constexpr std::size_t kWordBytes = sizeof(std::uint16_t);
Difference compare(const void* got, const void* expected, std::size_t words, cudaStream_t);

/// Bytes among these that are not the poison.
std::uint64_t count_unpoisoned(const void* data, std::size_t bytes, cudaStream_t);

}  // namespace tilelace::test
