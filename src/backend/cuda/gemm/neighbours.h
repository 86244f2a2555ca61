// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>

namespace tilelace::cuda {

/// Numbers for the clusters of two CTAs of a grid that fills the current device: clusters that an
/// idle device puts into one GPC get neighbouring numbers. In device memory, kept as long as the
/// process runs; empty where they could not be found. The first call on a device runs a probe (some
/// 1 ms; synchronises). Error: system.
std::span<const std::uint16_t> neighbour_places();

}  // namespace tilelace::cuda
