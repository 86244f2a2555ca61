// SPDX-License-Identifier: Apache-2.0
// Parts of kernels that sum after a GEMM. They enter the call, raise and await flags of chunks, and
// finish sums. Every thread of a CTA calls every function.
#pragma once
#include "backend/cuda/device/activation.h"
#include "backend/cuda/device/call.h"
#include "backend/cuda/device/early_launch.h"
#include "backend/cuda/device/elements.h"
#include "backend/cuda/device/transfer.h"
#include "schedule/reduce_rows.h"

namespace tilelace::cuda {

/// Waits for the GEMM before this kernel and enters its call, so that the header announces this
/// rank's complete partial; then the next kernel may begin. `epoch` becomes the call's number.
/// Returns false if a peer did not come or makes another call.
TILELACE_DEVICE bool enter_behind_product(const CallParams& c, std::uint32_t& epoch) {
  ptx::wait_prerequisites();
  epoch = call_number(c);
  __syncthreads();  // all threads have the number before the call is counted
  bool good = true;
  if (threadIdx.x < 32) {
    if (blockIdx.x == 0) send_headers(c, epoch);
    if (threadIdx.x == 0) count_call(c, epoch);
    good = wait_admission(c, epoch);
  }
  if (__syncthreads_and(good ? 1 : 0) == 0) return false;
  // Not before: what comes next must not take places while a peer's product may still need one.
  ptx::launch_dependents();
  return true;
}

/// Flags of chunks. Different warps raise different flags, since a thread's release waits until its
/// previous flag has reached the peer. Different threads wait for different flags. After a failed
/// wait no flag is raised.
class ChunkFlags {
 public:
  /// `of_a_rank`: number of flags per rank. Only the record of a failed wait needs it.
  TILELACE_DEVICE ChunkFlags(const CallParams& call, std::uint32_t epoch, schedule::Index of_a_rank)
      : call_(call), epoch_(epoch), of_a_rank_(of_a_rank) {}

  [[nodiscard]] TILELACE_DEVICE bool failed() const { return failed_; }
  /// Makes the signals that follow publish everything that all threads have stored so far.
  TILELACE_DEVICE void wrote() { unpublished_ = true; }

  TILELACE_DEVICE void signal(int peer, schedule::Index flag) {
    if (failed_) return;
    if (unpublished_) {
      __syncthreads();
      unpublished_ = false;
      signals_ = 0;
    }
    if (signals_++ * 32 % threads() == thread()) cuda::signal(call_.flags_at(peer) + flag, epoch_);
  }

  TILELACE_DEVICE void wait(schedule::Index flag) {
    if (waits_++ == thread()) awaited_ = flag;
    if (waits_ == threads()) settle();
  }

  /// Waits for all flags given to wait() since the last settle(). Returns whether all were raised.
  TILELACE_DEVICE bool settle() {
    if (waits_ == 0) return !failed_;
    bool here = true;
    if (awaited_ >= 0) {
      const auto flag = static_cast<std::uint32_t>(awaited_);
      const auto each = static_cast<std::uint32_t>(of_a_rank_);
      const WaitPlace place{Role::reduce, static_cast<int>(flag % each), -1,
                            static_cast<int>(flag / each), flag};
      here = cuda::wait(call_.wait, place, call_.flags_at(call_.rank) + awaited_, epoch_) ==
             comm::WaitStatus::reached;
    }
    waits_ = 0;
    awaited_ = -1;
    failed_ = __syncthreads_or(here && !failed_ ? 0 : 1) != 0;
    return !failed_;
  }

 private:
  TILELACE_DEVICE static int thread() { return static_cast<int>(threadIdx.x); }
  TILELACE_DEVICE static int threads() { return static_cast<int>(blockDim.x); }

  const CallParams& call_;
  std::uint32_t epoch_;
  schedule::Index of_a_rank_;
  int signals_ = 0, waits_ = 0;
  schedule::Index awaited_ = -1;  ///< the flag that this thread waits for
  bool unpublished_ = false, failed_ = false;
};

/// Applies bias, residual and activation to the sums of eight elements, then rounds them.
template <class Element, class Sum>
TILELACE_DEVICE uint4 finish_sum(const Sum& p, float (&sum)[8], schedule::Index unit) {
  if (p.bias != nullptr) {
    // 32 bits suffice for partials below 64 GiB, and GPUs divide 64-bit numbers slowly.
    const auto column = static_cast<std::uint32_t>(unit) % static_cast<std::uint32_t>(p.row_units);
    add_elements<Element>(sum, reinterpret_cast<const uint4*>(p.bias)[column]);
  }
  if (p.residual != nullptr)
    add_elements<Element>(sum, reinterpret_cast<const uint4*>(p.residual)[unit - p.out_begin]);
  if (p.activation != Activation::none) activate<8>(p.activation, sum);
  return pack_elements<Element>(sum);
}

/// Copies a chunk's finished sums to p.out, with kAtOnce loads in flight per thread.
template <int kThreads, int kAtOnce, class Sum>
TILELACE_DEVICE void deliver_sums(const Sum& p, const uint4* from, const schedule::SumChunk& c) {
  for (schedule::Index i = c.units.begin + static_cast<int>(threadIdx.x); i < c.units.end;
       i += kAtOnce * kThreads) {
    uint4 v[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u)
      if (i + u * kThreads < c.units.end) v[u] = __ldcg(from + i + u * kThreads);
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u)
      if (i + u * kThreads < c.units.end)
        reinterpret_cast<uint4*>(p.out)[i + u * kThreads - p.out_begin] = v[u];
  }
}

/// Launches a summing kernel, with one CTA per worker of its schedule.
template <class Sum>
cudaError_t launch_sum(void (*kernel)(Sum), const Sum& sum, int threads, Start start,
                       cudaStream_t stream) {
  return launch_as(start, kernel, sum.schedule.workers, threads, stream, sum);
}

}  // namespace tilelace::cuda
