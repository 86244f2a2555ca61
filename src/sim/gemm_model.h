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

/// The tile shapes of a library.
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
  double waves_us = 0;   ///< on the busiest SM at full clock
  double memory_us = 0;  ///< each matrix read or written once
  double power_us = 0;   ///< at the power limit
  double fixed_us = 0;
  [[nodiscard]] double busy_us() const;   ///< without fixed_us
  [[nodiscard]] double clock_us() const;  ///< without the power limit
  [[nodiscard]] double total_us() const { return busy_us() + fixed_us; }
  [[nodiscard]] GemmBound bound() const;
  /// Ratio of the time under the power limit to that at full clock.
  [[nodiscard]] double throttle() const { return clock_us() > 0 ? busy_us() / clock_us() : 1; }
  /// The same GEMM with main loops that take `by` times as long.
  [[nodiscard]] GemmTime stretched(double by) const;
};

/// The time of a GEMM with this tile shape and number of tiles.
GemmTime gemm_time(const Compute&, const Product&, const Tile&, double tiles);
/// The time with the fastest tile shape. m, n or k = 0: only the launch.
GemmTime gemm_time(const Compute&, const Product&);

/// No product of these sizes takes less: its operations at the highest rate that tensor cores reach
/// at any clock, each matrix once over the memory's bus.
double least_us(const Compute&, const Product&);

/// Speed-up of GEMMs inside a call, over a GEMM alone at its power limit. The call takes `call_us`
/// at the clock of the GEMM alone. It draws the GEMM's power for `product_us`, and as much for
/// `others_us` in addition. Power grows with the third power of the clock: linearly with it, and
/// with the square of the voltage, which follows the clock.
double clock_gain(const Compute&, double call_us, double product_us, double others_us);

}  // namespace tilelace::sim
