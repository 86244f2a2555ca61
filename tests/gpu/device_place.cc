// SPDX-License-Identifier: Apache-2.0
#include "device_place.h"

#include "backend/cuda/base/cuda_check.h"
#include "core/check.h"
#include "gemm/data.h"

namespace tilelace::gpu_test {

DeviceArena::DeviceArena(std::size_t bytes) : bytes_(bytes) {
  cuda::check(cudaMalloc(&memory_, bytes), "memory for operands");
}

DeviceArena::~DeviceArena() { cudaFree(memory_); }

void* DeviceArena::take(std::size_t bytes) {
  void* const at = static_cast<std::byte*>(memory_) + used_;
  used_ += (bytes + 255) / 256 * 256;
  require(used_ <= bytes_, "operands: got {} bytes, expected at most {}", used_, bytes_);
  return at;
}

void DevicePlace::fill(const TensorView& to, const test::Source& source, std::int64_t first_row) {
  if (source.fill == test::Fill::exact)
    test::fill_sparse(to.data, to.rows, to.cols, static_cast<int>(source.per_row), to.dtype,
                      source.seed, stream_, first_row);
  else
    test::fill_normal(to.data, static_cast<std::size_t>(to.rows * to.cols), to.dtype, source.seed,
                      stream_, static_cast<std::size_t>(first_row * to.cols));
}

void DevicePlace::set(void* data, std::uint8_t value, std::size_t bytes) {
  cuda::check(cudaMemsetAsync(data, value, bytes, stream_), "setting operands");
}

test::Judgement DevicePlace::judge(const test::Judged& judged, bool exact) {
  return test::judge(judged, 0, exact, 0, stream_);
}

test::Difference DevicePlace::compare(const void* got, const void* expected, DType type,
                                      std::size_t count) {
  require(size_of(type) == test::kWordBytes, "operands: got elements of {} bytes, expected {}",
          size_of(type), test::kWordBytes);
  return test::compare(got, expected, count, stream_);
}

std::uint64_t DevicePlace::count_unpoisoned(const void* data, std::size_t bytes) {
  return test::count_unpoisoned(data, bytes, stream_);
}

}  // namespace tilelace::gpu_test
