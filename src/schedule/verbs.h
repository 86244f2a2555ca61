// SPDX-License-Identifier: Apache-2.0
// The verbs that role loops need from a backend. CPU ranks, the checker and the simulator have all
// of them; GPU kernels and the copy-engine loop have those of their ops. Contracts:
//
//   signal(peer, flag)   release: everything this actor did before is visible to whoever waits for
//                        the flag at `peer` (may be the own rank). A flag has one writer. No wait.
//   signal_header(peer)  the call's epoch and agreement hash into this rank's header at `peer`.
//   wait(flag)           acquire on the own rank's flag; bounded; watches the abort word.
//   admit()              waits for every peer's header of this call and checks that it agrees. No
//                        result is written before it. Bounded, idempotent.
//   compute(tile)        product into the actor's accumulator; reads what was waited for.
//   store(tile)          epilogue of the accumulator into the result.
// ag_gemm:  push(t), pull(t)  one chunk between slots; complete (not only issued) when signalled.
//           stage(t)          own chunk into the own slot.   deliver(t)  slot (or own) to the user.
// gemm_rs, gemm_ar:
//           reduce(tile)      adds the children's partials to the accumulator in rank order.
//           partial(tile)     accumulator, rounded, to the own outgoing slot.
//           store_partial(tile, peer), store_result(tile, peer)  straight into the peer's slot.
//           park(piece)       keeps the unrounded accumulator of the own piece of a straddling
//                             tile; unpark(piece) brings it back, same worker.
// partial, store_partial and park take a whole tile or a piece of the tile computed last.
//           send_partial(c), fetch_partial(c), send_result(c), fetch_result(c), deliver(c)  chunks.
// collectives: send(r), take(r), deliver(r)  a round (exchange.h). With lines (units that carry the
//           call's epoch) instead of flags, in the checker: put_line, take_line. A unit is read as
//           a whole, once its epoch is equal. On GPUs that orders nothing but the unit itself.
#pragma once
#include "core/host_device.h"

namespace tilelace::schedule {

/// Tells every peer that this rank has entered the call. Ranks without rows do so, too: peers may
/// only send the next call's data once they have this header.
template <class Verbs>
TILELACE_ROLE void signal_headers(int ranks, int rank, Verbs& v) {
  for (int i = 1; i < ranks; ++i) {
    const int peer = rank + i;
    v.signal_header(peer < ranks ? peer : peer - ranks);
  }
}

}  // namespace tilelace::schedule
