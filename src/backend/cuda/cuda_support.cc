// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda_support.h"

#include <fmt/format.h>

#include "comm/cuda/capabilities.h"
#include "core/architecture.h"
#include "tilelace/error.h"

namespace tilelace {

std::string cuda_missing() {
  try {
    const int count = comm::device_count();
    if (count == 0) return "this process sees no GPU: look at CUDA_VISIBLE_DEVICES and nvidia-smi";
    const comm::Capabilities c = comm::query_capabilities(0);
    if (has_kernels(c.compute_major, c.compute_minor)) return {};
    return fmt::format("{} is sm_{}{}, but this build has kernels for {}", c.name, c.compute_major,
                       c.compute_minor, devices_with_kernels());
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace tilelace
