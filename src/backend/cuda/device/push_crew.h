// SPDX-License-Identifier: Apache-2.0
// Of a CTA that sums what ranks push: how its warps tell each other where they are, the one that
// signals for those who move data, and the one that waits for them.
#pragma once
#include "backend/cuda/device/sum_chunks.h"
#include "backend/cuda/reduce/push_rows.h"

namespace tilelace::cuda {

/// Of a CTA. Those who move data never wait for a release to get through: a warp signals for them.
/// Nor does that one wait for flags: another does.
struct PushShared {
  std::uint64_t moved[2 * schedule::kMaxPushRounds];  ///< by all who move; then it is signalled
  std::uint64_t here[2 * schedule::kMaxPushRounds];   ///< what was waited for
  std::uint64_t numbered;                             ///< the call's number is known
  std::uint32_t epoch;
  int failed;  ///< a wait did; written before `here`
};

struct PushPlaces {
  ptx::Shared moved, here, numbered, epoch, failed;
  TILELACE_DEVICE explicit PushPlaces(const PushShared& s)
      : moved(ptx::shared_address(s.moved)),
        here(ptx::shared_address(s.here)),
        numbered(ptx::shared_address(&s.numbered)),
        epoch(ptx::shared_address(&s.epoch)),
        failed(ptx::shared_address(&s.failed)) {}
  TILELACE_DEVICE std::uint32_t await_number() const {
    ptx::barrier_wait(numbered, 0);
    return static_cast<std::uint32_t>(ptx::load_shared(epoch));
  }
};

TILELACE_DEVICE int lane() { return static_cast<int>(threadIdx.x) & 31; }

/// Looks often, then waits with a bound.
TILELACE_DEVICE bool await(const PushSum& p, schedule::Index flag, std::uint32_t epoch) {
  const auto* const word = p.call.flags_at(p.call.rank) + flag;
  for (int i = 0; i < ptx::kQuickLooks; ++i) {
    if (comm::epoch_reached(comm::CudaAtomics::load_acquire(word), epoch)) return true;
    ptx::sleep(32);
  }
  const auto of = static_cast<int>(flag / p.schedule.max_chunks);
  const auto chunk = static_cast<int>(flag % p.schedule.max_chunks);
  const WaitPlace place{Role::reduce, chunk, -1, of % p.schedule.ranks,
                        static_cast<std::uint32_t>(flag)};
  return cuda::wait(p.call.wait, place, word, epoch) == comm::WaitStatus::reached;
}

/// Verbs of a warp that raises flags for what was moved, a lane a peer: all of them at once, for
/// one release waits for the flag of the one before it.
class PushTeller {
 public:
  TILELACE_DEVICE PushTeller(const PushSum& p, const PushPlaces& places, std::uint32_t epoch)
      : p_(p), places_(places), epoch_(epoch) {}

  TILELACE_DEVICE void push(schedule::PushedChunk /*c*/) { moves(); }
  TILELACE_DEVICE void reduce(const schedule::SumChunk& /*c*/) { moves(); }
  TILELACE_DEVICE void signal(int peer, schedule::Index flag) {
    if (fresh_) {
      ptx::barrier_wait(places_.moved + 8 * moved_, 0);
      ++moved_;
      signals_ = 0;
      fresh_ = false;
      failed_ = ptx::load_shared(places_.failed) != 0;
      __syncwarp();  // stays: the lanes go on together
    }
    if (signals_++ == lane() && !failed_) raised_ = p_.call.flags_at(peer) + flag;
  }
  TILELACE_DEVICE void admit() { raise(); }
  TILELACE_DEVICE void wait(schedule::Index /*flag*/) { raise(); }
  TILELACE_DEVICE void deliver(const schedule::SumChunk& /*c*/) { raise(); }
  /// By the whole warp, behind the last verb.
  TILELACE_DEVICE void raise() {
    if (raised_ != nullptr) cuda::signal(raised_, epoch_);
    raised_ = nullptr;
    __syncwarp();  // stays: the lanes go on together
  }

 private:
  TILELACE_DEVICE void moves() {
    raise();
    fresh_ = true;
  }

  const PushSum& p_;
  PushPlaces places_;
  std::uint32_t epoch_;
  comm::Flag* raised_ = nullptr;  ///< by this lane, next
  int moved_ = 0, signals_ = 0;
  bool fresh_ = false, failed_ = false;
};

/// Verbs of a warp that waits for flags, a lane each.
class PushWatcher {
 public:
  TILELACE_DEVICE PushWatcher(const PushSum& p, const PushPlaces& places, std::uint32_t epoch,
                              const Trace& trace)
      : p_(p), places_(places), epoch_(epoch), trace_(trace) {}

  TILELACE_DEVICE void admit() {
    failed_ = !wait_admission(p_.call, epoch_);
    if (lane() == 0) {
      if (failed_) ptx::store_shared(places_.failed, 1);
      trace_.add(TraceKind::admitted, kAdmitLane);
    }
    // Not before: what comes next must not take places while a peer's product may still need one.
    ptx::launch_dependents();
  }
  TILELACE_DEVICE void wait(schedule::Index flag) {
    if (waits_++ == lane()) awaited_ = flag;
  }
  TILELACE_DEVICE void reduce(const schedule::SumChunk& /*c*/) { settle_waits(); }
  TILELACE_DEVICE void deliver(const schedule::SumChunk& /*c*/) { settle_waits(); }
  TILELACE_DEVICE void push(schedule::PushedChunk /*c*/) {}
  TILELACE_DEVICE void signal(int /*peer*/, schedule::Index /*flag*/) {}

 private:
  /// The last one comes through whatever happened: the others wait for it.
  TILELACE_DEVICE void settle_waits() {
    if (waits_ == 0) return;
    bool here = !failed_;
    if (here && awaited_ >= 0) here = await(p_, awaited_, epoch_);
    failed_ = __all_sync(~0U, here ? 1 : 0) == 0;
    __syncwarp();  // what each lane saw is there for the first one: a vote does not promise it
    if (lane() == 0) {
      if (failed_) ptx::store_shared(places_.failed, 1);
      ptx::barrier_arrive(places_.here + 8 * here_);
    }
    ++here_;
    waits_ = 0;
    awaited_ = -1;
    __syncwarp();  // stays: the lanes go on together
  }

  const PushSum& p_;
  PushPlaces places_;
  std::uint32_t epoch_;
  Trace trace_;
  int here_ = 0, waits_ = 0;
  schedule::Index awaited_ = -1;
  bool failed_ = false;
};

TILELACE_DEVICE void tell(const PushSum& p, const PushPlaces& places) {
  const std::uint32_t epoch = places.await_number();
  if (blockIdx.x == 0) send_headers(p.call, epoch);
  PushTeller teller(p, places, epoch);
  schedule::run_push_rows(p.schedule, static_cast<int>(blockIdx.x), teller);
  teller.raise();
}

TILELACE_DEVICE void watch(const PushSum& p, const PushPlaces& places, const Trace& trace) {
  const std::uint32_t epoch = call_number(p.call);
  __syncwarp();  // all lanes have the number
  if (lane() == 0) {
    ptx::store_shared(places.epoch, static_cast<int>(epoch));
    ptx::barrier_arrive(places.numbered);
    count_call(p.call, epoch);
  }
  __syncwarp();  // stays: the lanes go on together
  PushWatcher watcher(p, places, epoch, trace);
  schedule::run_push_rows(p.schedule, static_cast<int>(blockIdx.x), watcher);
}

}  // namespace tilelace::cuda
