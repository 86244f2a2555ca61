// SPDX-License-Identifier: Apache-2.0
// How long a product takes on one device: a grid of tiles over the multiprocessors in waves, no
// faster than the memory, no faster than the power allows.
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

/// The tile shapes that a library has.
const std::vector<Tile>& tile_shapes();

struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  double element_bytes = 2;
  [[nodiscard]] double flops() const;
  /// Each matrix once.
  [[nodiscard]] double bytes() const;
};

/// Of one tile on one multiprocessor at full clock.
double tile_us(const Compute&, const Tile&, double k);

/// What bounds a product.
enum class GemmBound : std::uint8_t { waves, memory, power, fixed };
std::string_view name_of(GemmBound);

struct GemmTime {
  Tile tile;
  double waves_us = 0;   ///< of the busiest multiprocessor at full clock
  double memory_us = 0;  ///< each matrix once
  double power_us = 0;   ///< at the power limit
  double fixed_us = 0;
  [[nodiscard]] double busy_us() const;   ///< without fixed_us
  [[nodiscard]] double clock_us() const;  ///< without the power limit
  [[nodiscard]] double total_us() const { return busy_us() + fixed_us; }
  [[nodiscard]] GemmBound bound() const;
  /// How much slower than at full clock the power limit makes it.
  [[nodiscard]] double throttle() const { return clock_us() > 0 ? busy_us() / clock_us() : 1; }
  /// The same product where main loops take so many times as long.
  [[nodiscard]] GemmTime stretched(double by) const;
};

/// With this tile shape and this many tiles.
GemmTime gemm_time(const Compute&, const Product&, const Tile&, double tiles);
/// With the tile shape that is fastest for it. m, n or k = 0: nothing but the launch.
GemmTime gemm_time(const Compute&, const Product&);

/// How much faster products go than alone, at the power limit, in a call that takes `call_us` at
/// the clock of the product alone: `product_us` of it draw the power of a product, `others_us` as
/// much again. Power goes with the clock and with the square of the voltage, which follows it: with
/// the third power of the clock.
double clock_gain(const Compute&, double call_us, double product_us, double others_us);

}  // namespace tilelace::sim
