// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>

namespace tilelace::cuda {

/// Worker numbers for a grid of two-CTA clusters that fills the current device. Clusters that an
/// idle device places in one GPC get consecutive numbers. The numbers are in device memory that
/// lives until the process ends; the span is empty if no order was found. The first call on a
/// device runs a probe (about 1 ms; synchronises). Error: system.
std::span<const std::uint16_t> neighbour_places();

}  // namespace tilelace::cuda
