// SPDX-License-Identifier: Apache-2.0
// Whether times on a GPU can be trusted, or other work or heat disturbs them.
#pragma once
#include <cstdint>
#include <string>

namespace tilelace::plan {

/// Factor by which the same call's time may change between the start and the end of a problem.
/// Clocks settle within some per cent; heat and other programs change more.
inline constexpr double kMostStray = 1.2;

/// What disturbs the times; empty: nothing. `processes`: with work on the GPU, -1: unknown; `own`:
/// how many of them are ours; `slowdowns`: NVML's throttle reasons, only those of heat and faults,
/// since a power cap is normal at full load.
std::string disturbance_of(int processes, int own, std::uint64_t slowdowns);
/// The same for times of one call before and after; 0: not timed.
std::string stray_of(double first_us, double last_us);

}  // namespace tilelace::plan
