// SPDX-License-Identifier: Apache-2.0
// Stores to the shared memory of other CTAs of the cluster.
#pragma once
#include "backend/cuda/device/ptx.h"

namespace tilelace::cuda {

/// Stores `value` to the copy of `*shared` in CTA `cta` of the cluster and counts 8 bytes on that
/// CTA's `barrier`. Threads that wait on this barrier then see the value. The CTA must be running.
/// Unlike barrier.cluster, this waits for no other stores. Called by: any thread. Never blocks.
TILELACE_DEVICE void send_at(float2* shared, int cta, float2 value, ptx::Shared barrier) {
  asm volatile(
      "{\n.reg .b32 to, b;\nmapa.shared::cluster.u32 to, %0, %1;\nmapa.shared::cluster.u32 b, %2, "
      "%1;\nst.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [to], {%3, %4}, [b];\n}" ::
          "r"(ptx::shared_address(shared)),
      "r"(cta), "r"(barrier), "f"(value.x), "f"(value.y)
      : "memory");
}

}  // namespace tilelace::cuda
