// SPDX-License-Identifier: Apache-2.0
// Makes inputs of a GEMM and checks its results, both on the device, without copies to the host.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "conformance/values.h"

namespace tilelace::test {

/// Fills with values of {-1, 0, 1} hashed from seed and position. A row has `cols` elements,
/// of which at most `per_row` are not 0. `data` begins at row `first_row` of a larger matrix, whose
/// values are equal on every device. Seeds should not be close to each other.
void fill_sparse(void* data, std::int64_t rows, std::int64_t cols, int per_row, DType,
                 std::uint64_t seed, cudaStream_t, std::int64_t first_row = 0);

/// Fills with normal_value(); `data` begins at element `first` of a larger tensor.
void fill_normal(void* data, std::size_t elements, DType, std::uint64_t seed, cudaStream_t,
                 std::size_t first = 0);

/// Fills with the bit pattern of NaNs.
void poison(void* data, std::size_t bytes, cudaStream_t);

/// Compares `samples` elements of `out` at hashed positions (0: all elements) with a product in
/// fp64. An element's error may be at most u |y| + slope * 16 * 2^-24 * sum |a w|, where u is the
/// type's unit roundoff and `slope` the activation's. Each of the Parts::roundings adds u times
/// what it rounds. A gated result's bound follows from those of gate and up. `exact`: the bound is
/// 0. `skip_k`: the reference leaves out the first skip_k columns of each part (to test the test).
Judgement judge(const Judged&, std::int64_t samples, bool exact, std::int64_t skip_k, cudaStream_t);

/// Writes the expected results, dense, to `out`; sums must be exact.
void make_expected(const Judged&, void* out, cudaStream_t);

/// Size of the words that are compared bit by bit: one element of bf16 or fp16.
inline constexpr std::size_t kWordBytes = sizeof(std::uint16_t);
Difference compare(const void* got, const void* expected, std::size_t words, cudaStream_t);

/// Counts the bytes of `data` that are not kPoison.
std::uint64_t count_unpoisoned(const void* data, std::size_t bytes, cudaStream_t);

}  // namespace tilelace::test
