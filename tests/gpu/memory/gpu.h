// SPDX-License-Identifier: Apache-2.0
// One rank's GPU in a check: a stream, waits with a bound, and comparing with words to say.
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

  /// Empty if the memory holds what is expected, else how much of it does not, and where first.
  [[nodiscard]] std::string differences(std::string_view what, const void* at, std::size_t bytes,
                                        const Expected& expected) const;

  /// Free memory of the device, of all processes together.
  [[nodiscard]] static std::size_t free_bytes();

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
  Differences* found_ = nullptr;
};

/// Throws a system error naming `what` unless the call worked.
void require_cuda(cudaError_t result, std::string_view what);

/// The pattern of bits of this seed.
Expected bits_of(std::uint32_t seed);

}  // namespace tilelace::comm::test
