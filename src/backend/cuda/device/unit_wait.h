// SPDX-License-Identifier: Apache-2.0
// A time limit for threads that poll words in loops of their own.
#pragma once
#include "backend/cuda/device/wait.h"

namespace tilelace::cuda {

/// The time limit and the pauses of one thread's polling loop.
class UnitWait {
 public:
  TILELACE_DEVICE UnitWait(const WaitContext& c, std::uint32_t epoch) : c_(c), epoch_(epoch) {}

  /// Whether to poll again. False after the time limit or once the rank was stopped; then the host
  /// has a record of it. `place`: what the thread waits for.
  TILELACE_DEVICE bool again(const WaitPlace& place) {
    if (++round_ % kQuiet != 0) return true;
    if (deadline_ == 0) deadline_ = comm::CudaAtomics::now_ns() + c_.span_ns;
    comm::CudaAtomics::pause(round_ / kQuiet);
    if (stopped(c_)) return false;
    if (round_ % detail::kHostPollRounds == 0) {
      const comm::AbortWord said = detail::host_word(c_);
      constexpr auto kAborted = static_cast<std::uint32_t>(comm::WaitStatus::aborted);
      if (said != 0) detail::report(c_, place, said, kAborted, 0, epoch_);
    }
    if (comm::CudaAtomics::now_ns() < deadline_) return true;
    const comm::AbortReason reason{static_cast<std::uint8_t>(ErrorKind::timeout),
                                   static_cast<std::uint16_t>(c_.rank),
                                   static_cast<std::uint16_t>(place.peer)};
    constexpr auto kExpired = static_cast<std::uint32_t>(comm::WaitStatus::expired);
    detail::report(c_, place, comm::pack_abort(reason), kExpired, 0, epoch_);
    return false;
  }

 private:
  /// Polls between two looks at the clock and the stop word. They take about a link's round trip.
  static constexpr std::uint32_t kQuiet = 16;

  const WaitContext& c_;
  std::uint32_t epoch_;
  std::uint32_t round_ = 0;
  std::int64_t deadline_ = 0;
};

}  // namespace tilelace::cuda
