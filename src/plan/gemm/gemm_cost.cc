// SPDX-License-Identifier: Apache-2.0
#include "plan/gemm/gemm_cost.h"

#include <algorithm>
#include <cmath>

namespace tilelace::plan {
namespace {

/// Fitted to 3,554 measured plans of 196 problems on H200s (docs/decisions/0005). Terms that a
/// range of m does not show are 0 or far away.
struct Fit {
  double fixed_us;             ///< launch, first loads, last stores
  double clock_ghz;            ///< at which products run
  double step_bytes_per_ns;    ///< L2 into one multiprocessor
  double ns_per_mflop;         ///< energy of products, at the power limit
  double ns_per_l2_kb;         ///< energy of L2 reads
  double ns_per_partial_byte;  ///< writing and reading partials
  double us_per_giver;         ///< flags, and partials one after the other
  double ns_per_element;       ///< end of a tile
  double l2_bytes_per_ns;      ///< L2 into each of all multiprocessors at once
  double ns_per_memory_kb;     ///< energy of memory
  double memory_bytes_per_ns;
  double neighbours;  ///< L2 reads left where neighbours share
  double padding;     ///< a step's growth where all its token rows are filled with zeros
};
constexpr Fit kFewest{4.797,  0.992, 63.8,   0.877, 0.0272, 0.0135, 0.437,
                      0.0754, 117.1, 0.0284, 4484,  0.9,    0.734};
constexpr Fit kFew{4.694,  0.688, 84.7,   0.489, 0.0142, 0.0068, 0.816,
                   0.0152, 215.4, 0.0200, 4377,  0.9,    0.241};
constexpr Fit kSome{5.989,  1.463, 94.5,   1.061, 0.0361, 0.0196, 0.093,
                    0.0018, 187.3, 0.0233, 7998,  0.9,    0.1};
constexpr Fit kMany{0.843,  1.527, 70.5,   0.994, 0.0347, 0.0431, 1.5,
                    0.1135, 150.5, 0.1332, 4250,  0.973,  0};

constexpr double kFlopsPerCycle = 4096;    // of one multiprocessor
constexpr double kProductOverhead = 1.04;  // measured without any load
constexpr double kHiddenEnd = 0.3;         // of a tile's end, in pingpong
constexpr double kEarlyNs = 1500;          // gained by beginning early
constexpr double kLeastUs = 2;             // many rows of almost no work: the fit goes below 0

/// A maximum with a soft knee: limits that are near each other add up a little.
template <class... T>
double limit(T... x) {
  return std::pow((std::pow(x, 6) + ...), 1.0 / 6);
}

}  // namespace

double gemm_time_us(const GemmCost& c, std::int64_t m, int multiprocessors) {
  const Fit& f = m <= 32 ? kFewest : m <= 64 ? kFew : m <= 512 ? kSome : kMany;
  const double step = std::max(c.step_flops / kFlopsPerCycle * kProductOverhead / f.clock_ghz,
                               c.step_bytes / f.step_bytes_per_ns) *
                      (1 + f.padding * c.padding);
  const double busiest =
      c.steps * step + c.waves * c.tile_elements * f.ns_per_element * (c.pingpong ? kHiddenEnd : 1);
  const double l2_bytes = c.tile_steps * c.step_bytes * (c.neighbours ? f.neighbours : 1);
  const double energy = c.flops * 1e-6 * f.ns_per_mflop + l2_bytes * 1e-3 * f.ns_per_l2_kb +
                        c.memory_bytes * 1e-3 * f.ns_per_memory_kb;
  const double l2 = c.tile_steps * c.step_bytes / (f.l2_bytes_per_ns * multiprocessors);
  const double memory = c.memory_bytes / f.memory_bytes_per_ns;
  const double partials = 8 * c.tile_elements * f.ns_per_partial_byte * (1 + c.givers) / 2;
  const double shared = c.givers > 0 ? partials + 1000 * f.us_per_giver * c.givers : 0;
  const double ns = limit(busiest, energy, l2, memory) + shared - (c.early ? kEarlyNs : 0);
  return std::max(kLeastUs, f.fixed_us + ns / 1000);
}

}  // namespace tilelace::plan
