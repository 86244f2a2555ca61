// SPDX-License-Identifier: Apache-2.0
// The end of a fused gemm_ar: copies peers' finished tiles from the slot to the caller.
#pragma once
#include "backend/cuda/device/call.h"
#include "backend/cuda/device/publish.h"
#include "backend/cuda/device/shared_results.h"
#include "backend/cuda/device/wait.h"

namespace tilelace::cuda {

/// The verbs of schedule::run_collect, for a crew of whole warps. Each warp waits for itself, so
/// warps need not be in step. After a failed wait a warp copies nothing more.
class Collect {
 public:
  TILELACE_DEVICE Collect(const CallParams& call, const schedule::ShareOrder& order,
                          const SharedResults& shared, int columns, Crew crew, std::uint32_t epoch)
      : call_(call),
        order_(order),
        shared_(shared),
        columns_(columns),
        crew_(crew),
        epoch_(epoch) {}

  TILELACE_DEVICE void admit() {}

  TILELACE_DEVICE void wait_for(const schedule::SharedPart& part) {
    if ((crew_.thread & 31) == 0) {
      const comm::Flag* flags = call_.flags_at(call_.rank);
      const WaitPlace place{Role::copy, part.cell.section, part.cell.col, part.owner,
                            static_cast<std::uint32_t>(part.flag)};
      here_ =
          here_ && wait(call_.wait, place, flags + part.flag, epoch_) == comm::WaitStatus::reached;
    }
    here_ = __shfl_sync(~0U, here_ ? 1 : 0, 0) != 0;
    __syncwarp();  // unlike a shuffle, makes what lane 0 saw visible to all lanes
  }

  TILELACE_DEVICE void deliver(const schedule::SharedPart& part) {
    if (!here_) return;
    const schedule::PartPlace place = part_place(order_, part, shared_.shape, columns_);
    const int units = place.cols / 8;
    const int all = place.rows * units;
    const std::byte* const slot = call_.base + call_.rank * call_.stride + shared_.results;
    for (int i = crew_.thread; i < all; i += kAtOnce * crew_.threads) {
      uint4 v[kAtOnce];
      std::int64_t at[kAtOnce];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const int unit = i + u * crew_.threads;
        if (unit >= all) continue;
        at[u] =
            2 * (std::int64_t{place.row + unit / units} * columns_ + place.col + unit % units * 8);
        v[u] = __ldcg(reinterpret_cast<const uint4*>(slot + at[u]));
      }
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u)
        if (i + u * crew_.threads < all) *reinterpret_cast<uint4*>(shared_.out + at[u]) = v[u];
    }
  }

 private:
  static constexpr int kAtOnce = 4;  ///< 16-byte loads in flight per thread

  const CallParams& call_;
  const schedule::ShareOrder& order_;
  const SharedResults& shared_;
  int columns_;
  Crew crew_;
  std::uint32_t epoch_;
  bool here_ = true;
};

}  // namespace tilelace::cuda
