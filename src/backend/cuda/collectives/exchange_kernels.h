// SPDX-License-Identifier: Apache-2.0
// Picks the kernel of an exchange by its element type and reduction. Host code.
#pragma once
#include "backend/cuda/base/element_types.h"
#include "backend/cuda/device/parcels.h"

namespace tilelace::cuda {

/// Stands for the class R of a reduction. with_reduction calls f(ReductionTag<R>{}) for a call's R.
template <class R>
struct ReductionTag {
  using type = R;
};
template <class F>
auto with_reduction(const ExchangeParams& p, const F& f) {
  if (!p.schedule.sums) return f(ReductionTag<NoReduction>{});
  const bool max = p.reduction == Reduction::max;
  switch (p.item) {
    case Item::bf16:
      return max ? f(ReductionTag<FloatReduction<__nv_bfloat16, true>>{})
                 : f(ReductionTag<FloatReduction<__nv_bfloat16, false>>{});
    case Item::fp16:
      return max ? f(ReductionTag<FloatReduction<__half, true>>{})
                 : f(ReductionTag<FloatReduction<__half, false>>{});
    case Item::fp32:
      return max ? f(ReductionTag<FloatReduction<float, true>>{})
                 : f(ReductionTag<FloatReduction<float, false>>{});
    case Item::i32:
      return max ? f(ReductionTag<IntegerReduction<std::int32_t, true>>{})
                 : f(ReductionTag<IntegerReduction<std::int32_t, false>>{});
    case Item::i64:
      return max ? f(ReductionTag<IntegerReduction<std::int64_t, true>>{})
                 : f(ReductionTag<IntegerReduction<std::int64_t, false>>{});
    case Item::u8: break;
  }
  return max ? f(ReductionTag<IntegerReduction<std::uint8_t, true>>{})
             : f(ReductionTag<IntegerReduction<std::uint8_t, false>>{});
}

template <class F>
auto with_reduction(const ProductSum& p, const F& f) {
  return with_element(p.dtype, [&](auto e) {
    return f(ReductionTag<FloatReduction<typename decltype(e)::type, false>>{});
  });
}

/// Calls f for every kernel, with params that select that kernel, until f returns an error.
template <class F>
cudaError_t for_each_exchange(const F& f) {
  for (const int ranks : {2, 4, schedule::kMaxGpuRanks}) {
    const cudaError_t of_products = for_each_gpu_dtype([&](DType dtype) {
      ProductSum p{};
      p.exchange.schedule.ranks = ranks;
      p.dtype = dtype;
      return f(p);
    });
    if (of_products != cudaSuccess) return of_products;
    ExchangeParams p{};
    p.schedule.ranks = ranks;
    if (const cudaError_t status = f(p); status != cudaSuccess) return status;
    p.schedule.sums = true;
    for (const ItemRow& row : kItems)
      for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
        p.item = row.item, p.reduction = reduction;
        if (const cudaError_t status = f(p); status != cudaSuccess) return status;
      }
  }
  return cudaSuccess;
}

}  // namespace tilelace::cuda
