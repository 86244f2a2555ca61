// SPDX-License-Identifier: Apache-2.0
// What the GPU checks share: ranks as threads with a stream each, and what records name.
#pragma once
#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/measure/ranks.h"
#include "comm/cuda/device_memory.h"

namespace tilelace::gpu_test {

using cuda::measure::kMeetSeconds;
using cuda::measure::now_s;
using cuda::measure::Rank;
using cuda::measure::run_ranks;

/// `asked`, or the number of GPUs for 0. Errors: usage (no GPU, not 2 to 16), system (no driver).
int choose_ranks(int asked);
/// Whether this number of ranks must share devices.
bool share_devices(int ranks);

std::string utc_now();
std::string device_name();
/// The version of the driver's kernel module, or the driver's CUDA version if that is unknown.
std::string driver_version();

}  // namespace tilelace::gpu_test
