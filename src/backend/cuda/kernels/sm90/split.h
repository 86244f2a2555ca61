// SPDX-License-Identifier: Apache-2.0
// Tiles whose k-steps several workers share. All workers but the tile's first one write their fp32
// accumulators to scratch memory and raise a flag; the first worker adds them to its own.
#pragma once
#include "backend/cuda/kernels/operands.h"
#include "backend/cuda/kernels/sm90/ring.h"
#include "comm/cuda_atomics.h"
#include "tilelace/error.h"

namespace tilelace::cuda {

/// Where a thread finds the parts (accumulators) that workers gave in one round of shared tiles
/// (schedule/gemm.h). In ping-pong (groups alternate) a worker gives at most one part per round.
template <class Tile>
class SplitParts {
  using Shape = GemmShape<Tile>;
  static_assert(Tile::groups <= kMathGroups);

 public:
  TILELACE_DEVICE SplitParts(const GemmScratch& scratch, const ClusterPlace<Tile>& place, int group,
                             int round, int thread)
      : scratch_(scratch),
        place_(place),
        counted_(group),
        group_(Tile::pingpong ? 0 : group),
        round_(Tile::pingpong ? round : 0),
        thread_(thread) {}

  [[nodiscard]] TILELACE_DEVICE float4* part(int worker) const {
    const int slot = place_.slot(worker) + round_ * static_cast<int>(gridDim.x);
    const std::int64_t floats =
        std::int64_t{slot} * Shape::kPartialFloats + group_ * Tile::blocks * 64 * Tile::width;
    return reinterpret_cast<float4*>(scratch_.partials + floats) + thread_;
  }

  /// Called by one thread of each warpgroup, like the functions below.
  TILELACE_DEVICE void signal() const {
    comm::signal<comm::CudaDeviceAtomics>(flag(place_.worker), launch());
  }
  TILELACE_DEVICE void wait(int worker) const {
    comm::Flag seen = 0;
    const std::int64_t deadline = comm::CudaAtomics::now_ns() + scratch_.wait_ns;
    const auto status =
        comm::wait<comm::CudaDeviceAtomics>(flag(worker), launch(), scratch_.abort, deadline, seen);
    if (status == comm::WaitStatus::expired)
      comm::raise_abort<comm::CudaAtomics>(scratch_.abort,
                                           {static_cast<std::uint8_t>(ErrorKind::timeout), 0, 0});
  }
  /// Counts the launch for this CTA and group, and for unused CTAs and groups of `scratch`.
  TILELACE_DEVICE void count() const {
    const comm::Flag now = launch();
    const int ctas = static_cast<int>(gridDim.x);
    for (int c = place_.slot(place_.worker); c < scratch_.ctas; c += ctas)
      for (int g = counted_; g < kMathGroups; g += Tile::groups)
        scratch_.launches[c * kMathGroups + g] = now;
  }

 private:
  /// This launch's number among the launches with shared tiles. Each group has its own count, since
  /// one group may end before the other begins.
  [[nodiscard]] TILELACE_DEVICE comm::Flag launch() const {
    return scratch_.launches[place_.slot(place_.worker) * kMathGroups + counted_] + 1;
  }
  [[nodiscard]] TILELACE_DEVICE comm::Flag* flag(int worker) const {
    return scratch_.flags + place_.slot(worker) * Tile::groups + group_ + round_;
  }

  const GemmScratch& scratch_;
  const ClusterPlace<Tile>& place_;
  int counted_, group_, round_, thread_;
};

/// Stores a thread's accumulators. Another worker's add_part adds them to its own accumulators.
template <class Tile, class Accumulators>
TILELACE_DEVICE void leave_part(float4* to, const Accumulators& acc) {
  constexpr int kAccumulators = GemmShape<Tile>::kAccumulators;
#pragma unroll
  for (int i = 0; i < Tile::blocks; ++i)
#pragma unroll
    for (int j = 0; j < kAccumulators; j += 4)
      to[(i * kAccumulators + j) * 32] = {acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]};
}
template <class Tile, class Accumulators>
TILELACE_DEVICE void add_part(Accumulators& acc, const float4* from) {
  constexpr int kAccumulators = GemmShape<Tile>::kAccumulators;
#pragma unroll
  for (int i = 0; i < Tile::blocks; ++i)
#pragma unroll
    for (int j = 0; j < kAccumulators; j += 4) {
      const float4 v = __ldcg(from + (i * kAccumulators + j) * 32);
      acc[i][j] += v.x, acc[i][j + 1] += v.y, acc[i][j + 2] += v.z, acc[i][j + 3] += v.w;
    }
}

}  // namespace tilelace::cuda
