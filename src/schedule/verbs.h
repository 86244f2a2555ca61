// SPDX-License-Identifier: Apache-2.0
// The verbs that role loops need from a backend. CPU ranks, the checker and the simulator have all
// verbs; GPU kernels and the copy-engine loop have the verbs of their ops. Contracts:
//
//   signal(peer, flag)   release: whoever waits for the flag at `peer` (or the own rank) sees what
//                        this actor did before. Flags have one writer. Waits for no other actor.
//   signal_header(peer)  writes the call's epoch and agreement hash to this rank's header at peer.
//   wait(flag)           acquire on the own rank's flag; has a time limit; ends if a rank aborts.
//   admit()              waits for every peer's header of this call and checks that it agrees. No
//                        result is written before admit(). Has a time limit; idempotent.
//   compute(tile)        multiplies into the actor's accumulator; reads rows that were waited for.
//   store(tile)          applies the epilogue to the accumulator and stores it in the result.
// ag_gemm:  push(t), pull(t)  copy a chunk between slots; complete, not only issued, at the signal.
//           stage(t)          copies own rows to the own slot; deliver(t) copies rows to the user.
// gemm_rs, gemm_ar:
//           reduce(tile)      adds the children's partials to the accumulator in rank order.
//           partial(tile)     rounds the accumulator into the own outgoing slot.
//           store_partial(tile, peer), store_result(tile, peer)  store straight in the peer's slot.
//           park(piece)       keeps the unrounded accumulator of the own piece of a straddling
//                             tile; unpark(piece) brings it back, on the same worker.
//           partial, store_partial and park take a whole tile or a piece of the last computed tile.
//           send_partial(c), fetch_partial(c), send_result(c), fetch_result(c), deliver(c): chunk c
// collectives: send(r), take(r), deliver(r) for round r (exchange.h). With lines (units with the
//           call's epoch) the checker has put_line and take_line instead of flags. A unit is read
//           as a whole once it carries the epoch; on GPUs this orders no other memory access.
#pragma once
#include "core/host_device.h"

namespace tilelace::schedule {

/// Tells every peer that this rank has entered the call. Ranks without rows do so, too, since peers
/// may send the next call's data only when they have this header.
template <class Verbs>
TILELACE_ROLE void signal_headers(int ranks, int rank, Verbs& v) {
  for (int i = 1; i < ranks; ++i) {
    const int peer = rank + i;
    v.signal_header(peer < ranks ? peer : peer - ranks);
  }
}

}  // namespace tilelace::schedule
