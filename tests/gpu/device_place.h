// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <functional>

#include "conformance/operands.h"

namespace tilelace::gpu_test {

/// Device memory that is handed out in pieces; clear() takes all pieces back.
class DeviceArena {
 public:
  explicit DeviceArena(std::size_t bytes);
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;
  ~DeviceArena();
  /// Hands out memory, aligned to 256 bytes. Error: usage (not enough left).
  void* take(std::size_t bytes);
  void clear() { used_ = 0; }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_, used_ = 0;
};

/// Operands in device memory, with operations in stream order.
class DevicePlace : public test::Place {
 public:
  using Make = std::function<void*(std::size_t bytes)>;
  DevicePlace(cudaStream_t stream, Make make, Make make_results)
      : stream_(stream), make_(std::move(make)), make_results_(std::move(make_results)) {}

  std::byte* make(std::size_t bytes) override { return static_cast<std::byte*>(make_(bytes)); }
  std::byte* make_results(std::size_t bytes) override {
    return static_cast<std::byte*>(make_results_(bytes));
  }
  void fill(const TensorView& to, const test::Source& source, std::int64_t first_row) override;
  void set(void* data, std::uint8_t value, std::size_t bytes) override;
  test::Judgement judge(const test::Judged& judged, bool exact) override;
  test::Difference compare(const void* got, const void* expected, DType type,
                           std::size_t count) override;
  std::uint64_t count_unpoisoned(const void* data, std::size_t bytes) override;

 private:
  cudaStream_t stream_;
  Make make_, make_results_;
};

}  // namespace tilelace::gpu_test
