// SPDX-License-Identifier: Apache-2.0
// One rank's GPU in a check: a stream, bounded waits, and comparisons that say what differs.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "kernels.h"

namespace tilelace::comm::test {

class Gpu {
 public:
  explicit Gpu(int device);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  /// Waits for the stream. Errors: timeout after 10 s, system.
  void finish(std::string_view what) const;

  /// Says how many words differ from the expected content, and the first of them; empty: none.
  [[nodiscard]] std::string differences(std::string_view what, const void* at, std::size_t bytes,
                                        const Expected& expected) const;

  /// Bytes of the current device that no process uses.
  [[nodiscard]] static std::size_t free_bytes();

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
  Differences* found_ = nullptr;
};

/// Throws a system error that names `what` unless the call succeeded.
void require_cuda(cudaError_t result, std::string_view what);

/// The bit pattern of this seed.
Expected bits_of(std::uint32_t seed);

}  // namespace tilelace::comm::test
