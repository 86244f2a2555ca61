// SPDX-License-Identifier: Apache-2.0
// src/backend/cuda/device/cluster_shared.h for emulated GPUs.
#pragma once
#include <cstring>

#include "backend/cuda/device/ptx.h"
#include "machine/order.h"

namespace tilelace::cuda {

inline void send_at(float2* shared, int cta, float2 value, ptx::Shared barrier) {
  emulated::Cta& to = emulated::peer_cta(cta);
  std::byte* const at = to.at(emulated::shared_address(shared));
  if (emulated::order::is_on())
    emulated::order::touch(emulated::Machine::self().knower, emulated::order::Access::write, at,
                           sizeof value, __builtin_return_address(0));
  std::memcpy(at, &value, sizeof value);
  emulated::Machine::get().arrive(to, barrier, 0, -static_cast<long>(sizeof value));
}

}  // namespace tilelace::cuda
