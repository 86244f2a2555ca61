// SPDX-License-Identifier: Apache-2.0
// Says whether other work or heat disturbs measurements on a GPU.
#pragma once
#include <cstdint>
#include <string>

namespace tilelace::plan {

/// Factor by which a call's time may change from the start to the end of tuning a problem. While
/// clocks settle, the time changes by a few per cent; heat and other programs cause larger changes.
inline constexpr double kMostStray = 1.2;

/// What disturbs the times, as text; empty: nothing does. `processes`: number of processes with
/// work on the GPU; -1: unknown. `own`: how many of these processes are ours. `slowdowns`: NVML's
/// throttle reasons for heat and faults, without the power cap, which is normal at full load.
std::string disturbance_of(int processes, int own, std::uint64_t slowdowns);
/// How much one call's times at start and end of tuning differ, as text; empty: little or unknown.
std::string stray_of(double first_us, double last_us);

}  // namespace tilelace::plan
