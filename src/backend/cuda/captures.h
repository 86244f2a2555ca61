// SPDX-License-Identifier: Apache-2.0
// Which calls are captured in CUDA graphs, and whether their slots come out right.
#pragma once
#include <cuda_runtime_api.h>

#include <string_view>

namespace tilelace::cuda {

/// The id of the capture that this stream is part of; 0: none. Error: system (a broken capture).
unsigned long long capture_of(cudaStream_t stream);

/// Counts a communicator's calls. Call c uses slot c mod 2, and a captured call always the slot
/// that it was captured with: so a graph begins after an even number of calls and holds an even
/// one.
class Captures {
 public:
  /// Before a call. Errors: usage (an odd number of calls before a capture, or in the one before).
  void enter(cudaStream_t stream, std::string_view op);
  /// The call was enqueued.
  void count() { ++calls_; }
  [[nodiscard]] bool any() const { return any_; }
  [[nodiscard]] bool odd() const { return calls_ % 2 != 0; }

 private:
  unsigned long long calls_ = 0;
  unsigned long long capture_ = 0;  ///< of the last call
  bool any_ = false;
};

}  // namespace tilelace::cuda
