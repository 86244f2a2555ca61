// SPDX-License-Identifier: Apache-2.0
// Says whether other work or heat disturbs measurements on a GPU.
#pragma once
#include <cstdint>
#include <string>

namespace tilelace::plan {

/// Factor by which a call's time may change from the start to the end of tuning a problem. While
/// clocks settle, it changes by a few per cent; heat and other programs change it more.
inline constexpr double kMostStray = 1.2;

/// What disturbs the times, as text; empty: nothing does. `processes`: number of processes with
/// work on the GPU; -1: unknown. `own`: how many of them are ours. `slowdowns`: NVML's throttle
/// reasons for heat and faults, without the power cap, which is normal at full load.
std::string disturbance_of(int processes, int own, std::uint64_t slowdowns);
/// The same, judged by one call's time at the start and at the end of tuning; 0: not timed.
std::string stray_of(double first_us, double last_us);

}  // namespace tilelace::plan
