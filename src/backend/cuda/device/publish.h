// SPDX-License-Identifier: Apache-2.0
// Raises flags that announce data, the second step of a transfer (transfer.h).
#pragma once
#include "backend/cuda/device/ptx.h"
#include "comm/cuda_atomics.h"
#include "comm/signal.h"

namespace tilelace::cuda {

/// The threads that share a transfer, and the index of this one.
struct Crew {
  int thread = 0;
  int threads = 1;
};

/// Raises a flag, at a peer or at the own rank. Called by: one thread, the flag's only writer.
/// Order: release at system scope. Publishes what this thread wrote, what other threads wrote
/// before a barrier that this thread has since passed, and this thread's completed bulk groups.
/// Never blocks.
TILELACE_DEVICE void signal(comm::Flag* flag, std::uint32_t epoch) {
  comm::signal<comm::CudaAtomics>(flag, epoch);
}

/// Raises a flag for data that a whole crew wrote. Called by: every thread of the crew,
/// each warp converged. `barrier`: a named barrier of the crew (0 only if the crew is the CTA).
/// Order: this barrier, then the release in signal() by thread 0. Waits only for the crew's own
/// threads.
TILELACE_DEVICE void publish(const Crew& crew, int barrier, comm::Flag* flag, std::uint32_t epoch) {
  ptx::sync_threads(barrier, crew.threads);
  if (crew.thread == 0) signal(flag, epoch);
}

}  // namespace tilelace::cuda
