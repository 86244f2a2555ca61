// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>

namespace tilelace::cuda {

/// Worker numbers for a grid of two-CTA clusters that fills the current device. Clusters that an
/// idle device places in one GPC get consecutive numbers. They stay in device memory until the
/// process ends. Empty if none were found. The first call on a device runs a probe (about 1 ms;
/// synchronises). Error: system.
std::span<const std::uint16_t> neighbour_places();

}  // namespace tilelace::cuda
