// SPDX-License-Identifier: Apache-2.0
#include "sim/gemm_model.h"

#include <algorithm>
#include <cmath>

#include "sim/grid.h"

namespace tilelace::sim {
namespace {

/// Sharpness of the knee between two limits; the higher, the closer to their maximum.
constexpr double kMemoryKnee = 6, kPowerKnee = 8;

double soft_max(double a, double b, double knee) {
  const double most = std::max(a, b);
  if (most <= 0) return 0;
  return most * std::pow(std::pow(a / most, knee) + std::pow(b / most, knee), 1 / knee);
}

}  // namespace

const std::vector<Tile>& tile_shapes() {
  static const std::vector<Tile> shapes = [] {
    std::vector<Tile> all;
    for (const int rows : {64, 128, 256}) {
      for (int cols = 16; cols <= (rows < 256 ? 256 : 192); cols += 8) all.push_back({rows, cols});
    }
    return all;
  }();
  return shapes;
}

double Product::flops() const {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}
double Product::bytes() const {
  const auto a = static_cast<double>(m), b = static_cast<double>(n), c = static_cast<double>(k);
  return element_bytes * (a * c + b * c + a * b);
}

double tile_us(const Compute& c, const Tile& t, double k) {
  const double products =
      2.0 * t.rows * t.cols * k / (c.peak_tflops * 1e6 * c.efficiency) * c.multiprocessors;
  const double loads = 2.0 * (t.rows + t.cols) * k / (c.l2_gbps * 1e3);
  return std::max(products, loads) + c.tile_us * t.rows * t.cols / (128.0 * 256);
}

std::string_view name_of(GemmBound b) {
  switch (b) {
    case GemmBound::waves: return "tensor cores";
    case GemmBound::memory: return "memory";
    case GemmBound::power: return "power";
    case GemmBound::fixed: break;
  }
  return "launch";
}

double GemmTime::busy_us() const { return soft_max(clock_us(), power_us, kPowerKnee); }
double GemmTime::clock_us() const { return soft_max(waves_us, memory_us, kMemoryKnee); }

GemmTime GemmTime::stretched(double by) const {
  GemmTime t = *this;
  t.waves_us *= by;
  return t;
}

GemmBound GemmTime::bound() const {
  const double most = std::max({waves_us, memory_us, power_us});
  if (fixed_us > most) return GemmBound::fixed;
  if (most == power_us) return GemmBound::power;
  return most == memory_us ? GemmBound::memory : GemmBound::waves;
}

GemmTime gemm_time(const Compute& c, const Product& p, const Tile& t, double tiles) {
  GemmTime time;
  time.tile = t;
  time.waves_us = std::ceil(tiles / c.multiprocessors) * tile_us(c, t, static_cast<double>(p.k));
  time.memory_us = p.bytes() / (c.memory_gbps * 1e3);
  time.power_us = p.flops() / (c.power_tflops * 1e6);
  time.fixed_us = c.fixed_us;
  return time;
}

GemmTime gemm_time(const Compute& c, const Product& p) {
  GemmTime best;
  best.fixed_us = c.fixed_us;
  if (p.m == 0 || p.n == 0 || p.k == 0) return best;
  bool first = true;
  for (const Tile& t : tile_shapes()) {
    const std::int64_t tiles = ceil_div(p.m, t.rows) * ceil_div(p.n, t.cols);
    const GemmTime time = gemm_time(c, p, t, static_cast<double>(tiles));
    if (first || time.clock_us() < best.clock_us()) best = time;
    first = false;
  }
  return best;
}

double least_us(const Compute& c, const Product& p) {
  const double tflops = c.peak_tflops * std::max(1.0, c.efficiency * c.clock_boost);
  return std::max(p.flops() / (tflops * 1e6), p.bytes() / (c.memory_gbps * 1e3));
}

double clock_gain(const Compute& c, double call_us, double product_us, double others_us) {
  if (c.clock_boost <= 1 || product_us <= 0) return 1;
  return std::min(c.clock_boost, std::cbrt(call_us / (product_us + others_us)));
}

}  // namespace tilelace::sim
