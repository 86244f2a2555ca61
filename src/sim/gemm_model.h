// SPDX-License-Identifier: Apache-2.0
// The time of a GEMM on one device: a grid of tiles over the SMs in waves, limited by memory
// bandwidth and by power.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim/machine.h"

namespace tilelace::sim {

struct Tile {
  int rows = 128;
  int cols = 256;
  bool operator==(const Tile&) const = default;
};

/// The tile shapes that libraries offer.
const std::vector<Tile>& tile_shapes();

struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  double element_bytes = 2;
  [[nodiscard]] double flops() const;
  /// Bytes of the three matrices, each counted once.
  [[nodiscard]] double bytes() const;
};

/// Time of one tile on one SM at full clock.
double tile_us(const Compute&, const Tile&, double k);

/// What limits a GEMM.
enum class GemmBound : std::uint8_t { waves, memory, power, fixed };
std::string_view name_of(GemmBound);

struct GemmTime {
  Tile tile;
  double waves_us = 0;   ///< time of the busiest SM at full clock
  double memory_us = 0;  ///< time to read or write each matrix once
  double power_us = 0;   ///< time at the power limit
  double fixed_us = 0;
  [[nodiscard]] double busy_us() const;   ///< The time without fixed_us.
  [[nodiscard]] double clock_us() const;  ///< busy_us() without the power limit.
  [[nodiscard]] double total_us() const { return busy_us() + fixed_us; }
  [[nodiscard]] GemmBound bound() const;
  /// Ratio of the time under the power limit to the time at full clock.
  [[nodiscard]] double throttle() const { return clock_us() > 0 ? busy_us() / clock_us() : 1; }
  /// The time of the same GEMM if main loops take `by` times as long.
  [[nodiscard]] GemmTime stretched(double by) const;
};

/// The time of a GEMM with this tile shape and number of tiles.
GemmTime gemm_time(const Compute&, const Product&, const Tile&, double tiles);
/// The time of a GEMM with the fastest tile shape. If m, n or k is 0, only fixed_us counts.
GemmTime gemm_time(const Compute&, const Product&);

/// The least possible time of a GEMM of these sizes: its operations at the highest rate that tensor
/// cores reach at any clock, and each matrix moved once at memory rate.
double least_us(const Compute&, const Product&);

/// The factor by which GEMMs run faster inside a call than alone at the power limit. `call_us` is
/// the call's time at the clock of the GEMM alone. The call's energy is the GEMM's power times
/// (`product_us` + `others_us`). Power grows with the third power of the clock, since it is
/// proportional to the clock and to the square of the voltage, which follows the clock.
double clock_gain(const Compute&, double call_us, double product_us, double others_us);

}  // namespace tilelace::sim
