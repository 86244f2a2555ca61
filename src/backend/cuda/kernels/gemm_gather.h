// SPDX-License-Identifier: Apache-2.0
// What the loading warp of ag_gemm's GEMM does besides: waits for rows.
#pragma once
#include "backend/cuda/kernels/gemm_gate.h"
#include "backend/cuda/kernels/gemm_params.h"
#include "backend/cuda/kernels/gemm_shape.h"

namespace tilelace::cuda {

/// Verb wait of the loading warp: flags are dealt to the lanes, who wait side by side.
class GatherWaits {
 public:
  TILELACE_DEVICE explicit GatherWaits(const AgGemmParams& p)
      : p_(p), lane_(static_cast<int>(threadIdx.x) & 31) {}

  /// After the kernel before this one, which counts the calls.
  TILELACE_DEVICE void begin() {
    epoch_ = call_number(p_.call);
    ptx::arrive_threads(kNumberBarrier, kNumberThreads);
    flags_ = reinterpret_cast<const comm::Flag*>(p_.call.base + p_.call.rank * p_.call.stride +
                                                 p_.call.flags);
  }

  /// Waits until these rows can be read by TMA; false: they never came.
  TILELACE_DEVICE bool rows(int section, int first, int last, int segment) {
    segment_ = segment;
    good_ = true;
    p_.work.order.wait_for_rows(section, first, last, *this);
    wait_dealt();
    return good_;
  }

  TILELACE_DEVICE void wait(int flag) {
    // Flags only grow: once is enough.
    if (flag < 64) {
      if ((seen_ >> flag & 1U) != 0) return;
      seen_ |= 1ULL << flag;
    }
    if (dealt_ == lane_) flag_ = flag;
    if (++dealt_ == 32) wait_dealt();
  }

 private:
  TILELACE_DEVICE void wait_dealt() {
    if (dealt_ == 0) return;
    bool reached = true;
    if (lane_ < dealt_) {
      const int peer = flag_ / p_.work.order.max_chunks;
      const WaitPlace place{Role::load, segment_, -1, peer, static_cast<std::uint32_t>(flag_)};
      reached =
          cuda::wait(p_.call.wait, place, flags_ + flag_, epoch_) == comm::WaitStatus::reached;
    }
    dealt_ = 0;
    good_ = __all_sync(~0U, reached ? 1 : 0) != 0 && good_;
    proxy_fence_global();  // for whichever lane loads
  }

  const AgGemmParams& p_;
  int lane_;
  std::uint32_t epoch_ = 0;
  const comm::Flag* flags_ = nullptr;
  std::uint64_t seen_ = 0;
  int dealt_ = 0, flag_ = 0, segment_ = 0;
  bool good_ = true;
};

}  // namespace tilelace::cuda
