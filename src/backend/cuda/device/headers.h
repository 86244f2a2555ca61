// SPDX-License-Identifier: Apache-2.0
// The verb admit (do all ranks make the same call?) on the device.
#pragma once
#include "backend/cuda/device/wait.h"

namespace tilelace::cuda {

/// Waits for the headers of all peers, one lane per peer, and compares them with this rank's hash.
/// Called by: every lane of one warp, after the kernel that counted the previous call. Memory order
/// and time limit: as in wait (wait.h). Returns to all lanes whether every peer came and makes the
/// same call. A header of a later call is accepted, since its sender was in this call and went on,
/// for example after a failed wait. `headers`: one word per rank for slot 0, then for slot 1.
TILELACE_DEVICE bool wait_headers(const WaitContext& c, const comm::Header* headers, int rank,
                                  int ranks, std::uint32_t epoch, std::uint32_t hash) {
  bool good = true;
  for (int peer = static_cast<int>(threadIdx.x) & 31; peer < ranks; peer += 32) {
    if (peer == rank) continue;
    comm::Header seen = 0;
    const WaitPlace place{Role::store, 0, -1, peer, kHeaderFlag};
    const comm::Header* header = headers + (epoch & 1U) * static_cast<unsigned>(ranks) + peer;
    good = good && wait_header(c, place, header, epoch, seen) == comm::WaitStatus::reached &&
           (comm::header_epoch(seen) != epoch || agrees(c, place, seen, hash));
  }
  return __all_sync(~0U, good ? 1 : 0) != 0;
}

}  // namespace tilelace::cuda
