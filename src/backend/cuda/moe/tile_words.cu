// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <mutex>
#include <utility>

#include "backend/cuda/base/capture_of.h"
#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/current_device.h"
#include "backend/cuda/moe/tile_words.h"
#include "core/say.h"

namespace tilelace::cuda {
namespace {

constexpr int kTileWords = 1 << 16;
__device__ std::uint32_t words[kTileWords];

/// Which words are taken, on all devices.
class Taken {
 public:
  /// The number of a word that nobody had, or -1.
  int fresh() {
    const std::lock_guard lock(mutex_);
    return next();
  }
  /// The same number at each call with this key; -1 if there was none left at the first.
  int of(int device, unsigned long long stream) {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = of_stream_.try_emplace({device, stream}, -1);
    if (is_new) at->second = next();
    return at->second;
  }

 private:
  int next() {
    if (taken_ < kTileWords) return taken_++;
    say_once(
        "grouped_gemm: more than 65536 calls were captured; further ones take their tiles in "
        "turns, which may read more memory");
    return -1;
  }

  std::mutex mutex_;
  std::map<std::pair<int, unsigned long long>, int> of_stream_;
  int taken_ = 0;
};

}  // namespace

std::uint32_t* tile_word(cudaStream_t stream) {
  static Taken taken;
  int at = -1;
  if (capture_of(stream) != 0) {
    at = taken.fresh();
  } else {
    unsigned long long id = 0;
    check(cudaStreamGetId(stream, &id), "the id of a stream");
    at = taken.of(current_device(), id);
  }
  if (at < 0) return nullptr;
  void* first = nullptr;
  check(cudaGetSymbolAddress(&first, static_cast<const void*>(words)), "the words of tiles");
  return static_cast<std::uint32_t*>(first) + at;
}

}  // namespace tilelace::cuda
