// SPDX-License-Identifier: Apache-2.0
// Copies into shared memory for which a thread does not wait.
#pragma once
#include <vector_types.h>

#include "backend/cuda/device/ptx.h"

namespace tilelace::cuda {

/// 16 bytes of global memory, bypassing L1. Called by: any thread.
TILELACE_DEVICE void copy_later(uint4* shared, const uint4* global) {
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}

/// Waits until this thread's copies have arrived, for this thread.
TILELACE_DEVICE void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace tilelace::cuda
