// SPDX-License-Identifier: Apache-2.0
// The admission decides whether a kernel may store a call's results. The kernel may do so only
// after every peer has confirmed that it makes the same call. After a failed wait the kernel runs
// on, but stores nothing more. `Shared` has a barrier `admitted` and words `failed` and `number`.
#pragma once
#include <climits>

#include "backend/cuda/device/call.h"
#include "backend/cuda/device/trace.h"

namespace tilelace::cuda {

/// Called by the thread that initialises the CTA's barriers.
template <class Shared>
TILELACE_DEVICE void init_admission(Shared shared) {
  ptx::barrier_init(shared.admitted(), 1);
  ptx::store_shared(shared.failed(), INT_MAX);
}

/// Waits for the admission. Returns the same to all threads: whether this tile's results may be
/// stored. A CTA must ask for its tiles in increasing order of their numbers.
template <class Shared>
TILELACE_DEVICE bool may_store(Shared shared, int tile) {
  ptx::barrier_wait(shared.admitted(), 0);  // stays: orders `failed`; terms' flags order the rest
  return ptx::load_shared(shared.failed()) > tile;
}

/// Records that a wait for this tile failed. This tile and all later tiles will not be stored.
template <class Shared>
TILELACE_DEVICE void fail_from(Shared shared, int tile) {
  ptx::store_shared_least(shared.failed(), tile);
}

/// Waits for the admission and returns the call's number.
template <class Shared>
TILELACE_DEVICE std::uint32_t admitted_number(Shared shared) {
  ptx::barrier_wait(shared.admitted(), 0);
  return static_cast<std::uint32_t>(ptx::load_shared(shared.number()));
}

/// The verb admit, for one warp. `meet_readers()` returns once all warps of the CTA that need the
/// call's number have read it; only then is the call counted.
template <class Params, class Shared, class MeetReaders>
TILELACE_DEVICE void admit(const Params& p, Shared shared, MeetReaders meet_readers) {
  ptx::wait_prerequisites();
  const std::uint32_t epoch = call_number(p.call);
  if (p.call.first && blockIdx.x == 0) send_headers(p.call, epoch);
  const Trace trace(p, shared.trace());
  if (threadIdx.x % 32 == 0) trace.add(TraceKind::headers, kAdmitLane);
  meet_readers();
  const bool leader = (threadIdx.x & 31) == 0;
  if (leader && p.call.last) count_call(p.call, epoch);
  const bool good = wait_admission(p.call, epoch);
  if (!leader) return;
  trace.add(TraceKind::admitted, kAdmitLane);
  ptx::store_shared(shared.number(), static_cast<int>(epoch));
  if (!good) fail_from(shared, 0);
  ptx::barrier_arrive(shared.admitted());
}
/// The same for kernels in which no other warp reads the number before the admission.
template <class Params, class Shared>
TILELACE_DEVICE void admit(const Params& p, Shared shared) {
  admit(p, shared, [] { __syncwarp(); });  // all lanes have read the number
}

}  // namespace tilelace::cuda
