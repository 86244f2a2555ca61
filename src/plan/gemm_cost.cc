// SPDX-License-Identifier: Apache-2.0
#include "plan/gemm_cost.h"

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
  double ns_per_element;       ///< end of a tile
  double l2_bytes_per_ns;      ///< L2 into each of all multiprocessors at once
  double ns_per_memory_kb;     ///< energy of memory
  double neighbours;           ///< L2 reads left where neighbours share
};
constexpr Fit kFew{3.013, 0.690, 70.3, 0.665, 0, 0.0473, 0.576, 42557, 0, 0.781};
constexpr Fit kSome{4.190, 1.378, 38183, 0.847, 0.0504, 0.0293, 0.0371, 1683, 0.0284, 0.949};
constexpr Fit kMany{0.843, 1.527, 70.5, 0.994, 0.0347, 0.0431, 0.1135, 150.5, 0.1332, 0.973};

constexpr double kFlopsPerCycle = 4096;    // of one multiprocessor
constexpr double kProductOverhead = 1.04;  // measured without any load
constexpr double kMemoryBytesPerNs = 4250;
constexpr double kHiddenEnd = 0.3;  // of a tile's end, in pingpong
constexpr double kSharedNs = 1500;  // flags
constexpr double kEarlyNs = 1500;   // gained by beginning early

/// A maximum with a soft knee: limits that are near each other add up a little.
template <class... T>
double limit(T... x) {
  return std::pow((std::pow(x, 6) + ...), 1.0 / 6);
}

}  // namespace

double gemm_time_us(const GemmCost& c, std::int64_t m, int multiprocessors) {
  const Fit& f = m <= 64 ? kFew : m <= 512 ? kSome : kMany;
  const double step = std::max(c.step_flops / kFlopsPerCycle * kProductOverhead / f.clock_ghz,
                               c.step_bytes / f.step_bytes_per_ns);
  const double busiest =
      c.steps * step + c.waves * c.tile_elements * f.ns_per_element * (c.pingpong ? kHiddenEnd : 1);
  const double l2_bytes = c.tile_steps * c.step_bytes * (c.neighbours ? f.neighbours : 1);
  const double energy = c.flops * 1e-6 * f.ns_per_mflop + l2_bytes * 1e-3 * f.ns_per_l2_kb +
                        c.memory_bytes * 1e-3 * f.ns_per_memory_kb;
  const double l2 = c.tile_steps * c.step_bytes / (f.l2_bytes_per_ns * multiprocessors);
  const double memory = c.memory_bytes / kMemoryBytesPerNs;
  const double shared = c.shared ? 8 * c.tile_elements * f.ns_per_partial_byte + kSharedNs : 0;
  return f.fixed_us +
         (limit(busiest, energy, l2, memory) + shared - (c.early ? kEarlyNs : 0)) / 1000;
}

}  // namespace tilelace::plan
