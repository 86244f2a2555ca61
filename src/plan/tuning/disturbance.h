// SPDX-License-Identifier: Apache-2.0
// Whether times on a GPU say something about its plans, or about what else goes on there.
#pragma once
#include <cstdint>
#include <string>

namespace tilelace::plan {

/// How far the same call's time may stray from the beginning of a problem to its end: clocks under
/// load of their own settle within some per cent; heat and other programs take more.
inline constexpr double kMostStray = 1.2;

/// Empty: nothing speaks against it. Else what was seen. `processes`: that have work on the GPU,
/// -1: not known; `own`: of them ours; `slowdowns`: NVML's reasons, of heat and faults alone: a
/// power cap is what full load looks like.
std::string disturbance_of(int processes, int own, std::uint64_t slowdowns);
/// Of the same call, before and after; 0: not timed.
std::string stray_of(double first_us, double last_us);

}  // namespace tilelace::plan
