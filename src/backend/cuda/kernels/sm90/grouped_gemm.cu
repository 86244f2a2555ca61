// SPDX-License-Identifier: Apache-2.0
#include <initializer_list>
#include <iterator>
#include <utility>

#include "backend/cuda/base/element_types.h"
#include "backend/cuda/kernels/sm90/grouped_kernels.h"
#include "backend/cuda/kernels/sm90/grouped_load.h"
#include "backend/cuda/kernels/sm90/grouped_math.h"

namespace tilelace::cuda {
namespace {

template <class K>
TILELACE_DEVICE void start(const GroupedParams& p, typename K::Shared& shared) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 32) ptx::prefetch_map(&p.weight);
  if (K::kGated && thread == 33) ptx::prefetch_map(&p.up);
  if (thread >= 64 && thread < 64 + K::kRowMaps) ptx::prefetch_map(&p.rows[thread - 64]);
  if (thread >= 96 && thread < 96 + K::kResultMaps) ptx::prefetch_map(&p.results[thread - 96]);
  if (thread == 0) {
    for (int i = 0; i < K::kStages; ++i) {
      ptx::barrier_init(K::at(&shared.full[i]), 1);
      ptx::barrier_init(K::at(&shared.empty[i]), K::kCluster);
    }
    for (int i = 0; i < kGroupedSlots; ++i) {
      ptx::barrier_init(K::at(&shared.placed[i]), 1);
      ptx::barrier_init(K::at(&shared.listed[i]), 1);
      ptx::barrier_init(K::at(&shared.done[i]), 1);
    }
    for (int i = 0; i < kDealt; ++i) {
      ptx::barrier_init(K::at(&shared.given[i]), 1);
      ptx::barrier_init(K::at(&shared.taken[i]), K::kCluster);
    }
    ptx::barrier_init_fence();
  }
  ptx::launch_dependents();
  ptx::wait_prerequisites();
  count_tiles(p, shared.before);
  if constexpr (K::kCluster > 1)
    ptx::cluster_sync();
  else
    __syncthreads();
}

template <class K>
__global__ void __launch_bounds__(kGroupedThreads, 1)
    grouped_kernel(const __grid_constant__ GroupedParams p) {
  extern __shared__ __align__(1024) std::uint8_t memory[];
  auto& shared = *reinterpret_cast<typename K::Shared*>(memory);
  start<K>(p, shared);
  const int warpgroup = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 128, 0);
  if (warpgroup == 0) {
    ptx::registers_less<40>();
    const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);
    const int lane = static_cast<int>(threadIdx.x) & 31;
    if (warp == 0) GroupedLoad<K>(p, shared).run();
    if (warp == 1) GroupedList<K>(p, shared, lane).run();
    if (warp == 2 && lane == 0 && K::cluster_rank() == 0) GroupedDeal<K>(p, shared).run();
  } else {
    ptx::registers_more<232>();
    GroupedMath<K>(p, shared, warpgroup - 1).run();
  }
}

template <class K>
GroupedEntry entry() {
  return {reinterpret_cast<const void*>(grouped_kernel<K>),
          static_cast<int>(sizeof(typename K::Shared))};
}
template <class Element, bool kGated, int... kShapes>
GroupedEntry entry(const plan::GroupedShape& shape,
                   std::integer_sequence<int, kShapes...> /*shapes*/) {
  const GroupedEntry all[] = {entry<GroupedKernel<Element, kGated, kShapes>>()...};
  for (const int i : {kShapes...})
    if (plan::kSm90GroupedShapes[i] == shape) return all[i];
  return {};
}

}  // namespace

GroupedEntry grouped_entry(DType dtype, bool gated, const plan::GroupedShape& shape) {
  return with_element(dtype, [&](auto e) -> GroupedEntry {
    using Element = typename decltype(e)::type;
    constexpr std::make_integer_sequence<int, std::size(plan::kSm90GroupedShapes)> all;
    return gated ? entry<Element, true>(shape, all) : entry<Element, false>(shape, all);
  });
}

}  // namespace tilelace::cuda
