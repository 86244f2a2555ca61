// SPDX-License-Identifier: Apache-2.0
// Says whether other work or heat disturbs times on a GPU.
#pragma once
#include <cstdint>
#include <string>

namespace tilelace::plan {

/// Factor by which the time of a call may change between the start and the end of a problem.
/// Clocks settle within some per cent; heat and other programs change more.
inline constexpr double kMostStray = 1.2;

/// What disturbs the times, as text; empty: nothing. `processes`: number of processes with work on
/// the GPU, -1: unknown. `own`: how many of them are ours. `slowdowns`: NVML's throttle reasons for
/// heat and faults; a power cap is not one, since it is normal at full load.
std::string disturbance_of(int processes, int own, std::uint64_t slowdowns);
/// The same, judged by the times of one call before and after; 0: not timed.
std::string stray_of(double first_us, double last_us);

}  // namespace tilelace::plan
