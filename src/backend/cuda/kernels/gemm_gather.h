// SPDX-License-Identifier: Apache-2.0
// What the GEMM of ag_gemm does besides: waits for rows, and for the peers' word that they make the
// same call. A wait that fails never stops the kernel: operands are then wrong, and nothing of them
// is stored.
#pragma once
#include <climits>

#include "backend/cuda/device/headers.h"
#include "backend/cuda/kernels/gemm_params.h"
#include "backend/cuda/kernels/gemm_shape.h"

namespace tilelace::cuda {

TILELACE_DEVICE const CUtensorMap* out_map(const GemmParams& p, int /*section*/) { return &p.out; }
TILELACE_DEVICE const CUtensorMap* rest_map(const GemmParams& p, int /*section*/) {
  return &p.out_rest;
}
TILELACE_DEVICE const CUtensorMap* out_map(const AgGemmParams& p, int section) {
  return p.out + section;
}
TILELACE_DEVICE const CUtensorMap* rest_map(const AgGemmParams& p, int section) {
  return p.out_rest + section;
}

template <class Tile>
TILELACE_DEVICE void init_gate(GemmShared<Tile> shared) {
  ptx::barrier_init(shared.admitted(), 1);
  ptx::store_shared(shared.failed(), INT_MAX);
}

/// Whether the results of the CTA's i-th segment may be stored; the same to all threads. Waits for
/// the admission.
template <class Tile>
TILELACE_DEVICE bool may_store(GemmShared<Tile> shared, int segment) {
  ptx::barrier_wait(shared.admitted(), 0);
  return ptx::load_shared(shared.failed()) > segment;
}

/// Verb admit, by one warp.
template <class Tile>
TILELACE_DEVICE void admit(const AgGemmParams& p, GemmShared<Tile> shared) {
  ptx::wait_prerequisites();
  const bool good = wait_headers(p.wait, p.headers, p.rank, p.work.order.ranks, *p.epoch, p.hash);
  if ((threadIdx.x & 31) != 0) return;
  if (!good) ptx::store_shared_least(shared.failed(), 0);
  ptx::barrier_arrive(shared.admitted());
}

/// Verb wait of the loading warp: flags are dealt to the lanes, who wait side by side.
class GatherWaits {
 public:
  TILELACE_DEVICE explicit GatherWaits(const AgGemmParams& p)
      : p_(p), lane_(static_cast<int>(threadIdx.x) & 31) {}

  /// After the kernel before this one, which counts the calls.
  TILELACE_DEVICE void begin() { epoch_ = *p_.epoch; }

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
      reached = cuda::wait(p_.wait, place, p_.flags + flag_, epoch_) == comm::WaitStatus::reached;
    }
    dealt_ = 0;
    good_ = __all_sync(~0U, reached ? 1 : 0) != 0 && good_;
    proxy_fence_global();  // for whichever lane loads
  }

  const AgGemmParams& p_;
  int lane_;
  std::uint32_t epoch_ = 0;
  std::uint64_t seen_ = 0;
  int dealt_ = 0, flag_ = 0, segment_ = 0;
  bool good_ = true;
};

}  // namespace tilelace::cuda
