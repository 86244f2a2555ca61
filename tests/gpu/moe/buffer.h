// SPDX-License-Identifier: Apache-2.0
// Device memory with a guard on both sides.
#pragma once
#include <cuda_runtime_api.h>

#include <cstring>
#include <string>
#include <vector>

#include "backend/cuda/base/cuda_check.h"
#include "conformance/values.h"

namespace tilelace::gpu_test {

class Buffer {
 public:
  explicit Buffer(std::size_t bytes) : bytes_(bytes) {
    cuda::check(cudaMalloc(&memory_, bytes + 2 * kGuard), "memory");
    poison();
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { cudaFree(memory_); }

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_) + kGuard; }
  template <class T>
  [[nodiscard]] T* as() const {
    return reinterpret_cast<T*>(data());
  }
  void poison() const {
    cuda::check(cudaMemset(memory_, test::kPoison, bytes_ + 2 * kGuard), "poison");
    settle();
  }
  template <class T>
  void upload(const std::vector<T>& from) const {
    cuda::check(cudaMemcpy(data(), from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice),
                "upload");
    settle();
  }
  template <class T>
  [[nodiscard]] std::vector<T> download(std::size_t count) const {
    std::vector<T> to(count);
    cuda::check(cudaMemcpy(to.data(), data(), count * sizeof(T), cudaMemcpyDeviceToHost),
                "download");
    return to;
  }
  /// Whether the guards and the bytes from `used` on are unchanged.
  [[nodiscard]] bool untouched(std::size_t used) const {
    std::vector<std::uint8_t> all(bytes_ + 2 * kGuard);
    cuda::check(cudaMemcpy(all.data(), memory_, all.size(), cudaMemcpyDeviceToHost), "download");
    for (std::size_t i = 0; i < all.size(); ++i)
      if ((i < kGuard || i >= kGuard + used) && all[i] != test::kPoison) return false;
    return true;
  }

 private:
  /// Waits for the default stream, since other streams do not wait for it.
  static void settle() { cuda::check(cudaStreamSynchronize(nullptr), "memory"); }

  static constexpr std::size_t kGuard = 4096;
  void* memory_ = nullptr;
  std::size_t bytes_;
};

}  // namespace tilelace::gpu_test
