// SPDX-License-Identifier: Apache-2.0
// Waits on the device: comm::wait with %globaltimer as its clock, and a record for the host when a
// wait fails. Nothing traps. A wait that does not return `reached` has already written the record
// and stopped all other waits of this rank; its caller ends the kernel without writing results. All
// functions are inlined: a function call would make ptxas serialise the wgmma of kernels that wait.
#pragma once
#include "backend/cuda/device/proxy.h"
#include "backend/cuda/device/record.h"
#include "comm/cuda_atomics.h"
#include "tilelace/error.h"

namespace tilelace::cuda {

namespace detail {

/// Reports a failed wait. Only a rank's first failed wait sets the stop word and writes the record.
TILELACE_DEVICE void report(const WaitContext& c, const WaitPlace& place, comm::AbortWord reason,
                            std::uint32_t status, std::uint32_t have, std::uint32_t want) {
  comm::AbortWord before = 0;
  // stays: no test notices its loss, since only the host reads what it orders
  if (!comm::CudaAtomics::compare_exchange(c.stop, before, reason)) return;
  WaitRecord* r = c.record;
  r->op = c.op;
  r->call = want;
  r->status = status;
  r->place = place;
  r->have = have;
  r->want = want;
  comm::CudaAtomics::store_release(&r->ready, 1U);  // stays: as above, for the host
}

/// The rank's abort word in host memory if it is set, else the group's word. 0: neither is set.
TILELACE_DEVICE comm::AbortWord host_word(const WaitContext& c) {
  // stays: no test notices its loss, since no data is read because of this word
  const comm::AbortWord own = comm::CudaAtomics::load_acquire(c.host_stop);
  if (own != 0 || c.group_stop == nullptr) return own;
  // stays: as above
  return comm::CudaAtomics::load_acquire(c.group_stop);
}

/// How often a thread polls a flag between two reads of host memory (a few ms). If the hundreds of
/// waiting threads of a device read more often, the reads fill the bus, and a flag is seen 100 us
/// late. A read takes a few us and holds up all lanes of the warp, so no wait begins with a read.
constexpr std::uint32_t kHostPollRounds = 4096;

template <class Word, class EpochOf>
TILELACE_DEVICE comm::WaitStatus wait_word(const WaitContext& c, const WaitPlace& place,
                                           const Word* word, std::uint32_t want, EpochOf epoch_of,
                                           Word& seen) {
  using comm::CudaAtomics;
  // Most flags are already raised; then neither clock nor abort words are read.
  seen = CudaAtomics::load_acquire(word);
  if (comm::epoch_reached(epoch_of(seen), want)) return comm::WaitStatus::reached;
  // Threads start at different rounds, so that they do not all read host memory at once.
  std::uint32_t round = (blockIdx.x * 61 + threadIdx.x * 7) % (kHostPollRounds / 2);
  const auto reached = [&](Word have) {
    if (comm::epoch_reached(epoch_of(have), want)) return true;
    if (++round % kHostPollRounds == 0) {
      const comm::AbortWord said = host_word(c);
      constexpr auto kAborted = static_cast<std::uint32_t>(comm::WaitStatus::aborted);
      if (said != 0) report(c, place, said, kAborted, epoch_of(have), want);
    }
    return false;
  };
  const std::int64_t deadline = CudaAtomics::now_ns() + c.span_ns;
  const comm::WaitStatus status =
      comm::wait_until<CudaAtomics>(word, reached, c.stop, deadline, seen);
  if (status == comm::WaitStatus::expired) {
    const comm::AbortReason reason{static_cast<std::uint8_t>(ErrorKind::timeout),
                                   static_cast<std::uint16_t>(c.rank),
                                   static_cast<std::uint16_t>(place.peer)};
    report(c, place, comm::pack_abort(reason), static_cast<std::uint32_t>(status), epoch_of(seen),
           want);
  }
  return status;
}

}  // namespace detail

/// Waits for a flag in this rank's memory to reach `epoch`.
/// Called by: one thread. Order: acquire at system scope. On `reached`, everything that the flag's
/// writer published before is visible to this thread's loads and, after a barrier, to other threads
/// of the CTA. Only wait_for_bulk makes it visible to TMA. Time limit: c.span_ns; the wait ends
/// early once the rank is stopped. Publishes nothing.
TILELACE_DEVICE comm::WaitStatus wait(const WaitContext& c, const WaitPlace& place,
                                      const comm::Flag* flag, std::uint32_t epoch) {
  comm::Flag seen = 0;
  return detail::wait_word(
      c, place, flag, epoch, [](comm::Flag have) { return have; }, seen);
}

/// Like wait, for data that TMA reads. Only the calling thread may issue bulk and tensor copies
/// that read the published data (or overwrite it, if the flag says that a slot is free).
TILELACE_DEVICE comm::WaitStatus wait_for_bulk(const WaitContext& c, const WaitPlace& place,
                                               const comm::Flag* flag, std::uint32_t epoch) {
  const comm::WaitStatus status = wait(c, place, flag, epoch);  // stays: only gpu_litmus calls this
  proxy_fence_global();                                         // stays: only gpu_litmus calls this
  return status;
}

/// Like wait, for a peer's header. `seen` receives the header; the caller must compare its hash.
TILELACE_DEVICE comm::WaitStatus wait_header(const WaitContext& c, const WaitPlace& place,
                                             const comm::Header* header, std::uint32_t epoch,
                                             comm::Header& seen) {
  return detail::wait_word(
      c, place, header, epoch, [](comm::Header have) { return comm::header_epoch(have); }, seen);
}

/// Whether a peer's header has the hash of this rank's call. If not, writes the record and ends all
/// waits of this rank. Called by: any thread.
TILELACE_DEVICE bool agrees(const WaitContext& c, const WaitPlace& place, comm::Header seen,
                            std::uint32_t hash) {
  const std::uint32_t have = comm::header_hash(seen);
  if (have == hash) return true;
  const comm::AbortReason reason{static_cast<std::uint8_t>(ErrorKind::usage),
                                 static_cast<std::uint16_t>(c.rank),
                                 static_cast<std::uint16_t>(place.peer)};
  detail::report(c, place, comm::pack_abort(reason), kDisagrees, have, hash);
  return false;
}

/// Like wait, for a whole CTA. Every thread calls it, thread 0 waits, and a barrier then makes the
/// published data visible to all threads. Returns to every thread whether the flag was reached.
TILELACE_DEVICE bool wait_cta(const WaitContext& c, const WaitPlace& place, const comm::Flag* flag,
                              std::uint32_t epoch) {
  bool failed = false;
  // stays: no test on emulated GPUs notices its loss, since only gpu_litmus calls wait_cta
  if (threadIdx.x == 0) failed = wait(c, place, flag, epoch) != comm::WaitStatus::reached;
  return __syncthreads_or(failed ? 1 : 0) == 0;  // stays: as above
}

/// Whether this rank was stopped, for example by a failed wait. For long loops without waits.
TILELACE_DEVICE bool stopped(const WaitContext& c) {
  // stays: no test notices its loss, since no data is read because of this word
  return comm::CudaAtomics::load_acquire(c.stop) != 0;
}

}  // namespace tilelace::cuda
