// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies into shared memory (cp.async).
#pragma once
#include <vector_types.h>

#include "backend/cuda/device/ptx.h"

namespace tilelace::cuda {

/// Starts a copy of 16 bytes from global to shared memory that bypasses L1. Called by: any thread.
TILELACE_DEVICE void copy_later(uint4* shared, const uint4* global) {
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}

/// Waits until this thread's copies have arrived. Only this thread then sees them.
TILELACE_DEVICE void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace tilelace::cuda
