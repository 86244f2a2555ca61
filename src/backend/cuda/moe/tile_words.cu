// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <mutex>
#include <string>
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

/// Gives out the words. A number is given once, on whatever device.
class TileWords {
 public:
  /// A word of the current device that nobody had; null if none is left.
  std::uint32_t* fresh() {
    const std::lock_guard lock(mutex_);
    return next();
  }
  /// The same word at each call with this key, which is of the current device.
  std::uint32_t* of(int device, unsigned long long stream) {
    const std::lock_guard lock(mutex_);
    const auto found = of_stream_.find({device, stream});
    if (found != of_stream_.end()) return found->second;
    return of_stream_[{device, stream}] = next();
  }

 private:
  std::uint32_t* next() {
    if (taken_ == kTileWords) {
      say_once("grouped_gemm: all " + std::to_string(kTileWords) +
               " words for streams and captured calls are taken; more calls take their tiles in "
               "turns, which may read more memory");
      return nullptr;
    }
    void* first = nullptr;
    check(cudaGetSymbolAddress(&first, static_cast<const void*>(words)), "the words of tiles");
    return static_cast<std::uint32_t*>(first) + taken_++;
  }

  std::mutex mutex_;
  std::map<std::pair<int, unsigned long long>, std::uint32_t*> of_stream_;
  int taken_ = 0;
};

}  // namespace

std::uint32_t* tile_word(cudaStream_t stream) {
  static TileWords all;
  if (capture_of(stream) != 0) return all.fresh();
  unsigned long long id = 0;
  check(cudaStreamGetId(stream, &id), "the id of a stream");
  return all.of(current_device(), id);
}

}  // namespace tilelace::cuda
