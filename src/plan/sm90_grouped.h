// SPDX-License-Identifier: Apache-2.0
// The tile shapes of the sm_90a kernels for products grouped by expert, and which one a product
// takes without a table. Kernels and the row in plan/gemm/architecture_plans.cc are made from this
// file.
#pragma once
#include "plan/grouped_product.h"

namespace tilelace::plan {

// The two warpgroups of a CTA ping-pong, each with its own tile.
inline constexpr GroupedShape kSm90Few{
    "few", "few rows per expert, which narrow tiles pad less", 64, 128, 1, 8, 32};
inline constexpr GroupedShape kSm90Many{
    "many", "more rows per expert; stores overlap with products", 192, 128, 2, 5, 32};
/// For a short k, whose stores take more time than its products: stages more results.
inline constexpr GroupedShape kSm90Brief{
    "brief", "more rows per expert, a short k, whose stores count most", 192, 128, 2, 4, 96};
/// Kernels are numbered in this order.
inline constexpr GroupedShape kSm90GroupedShapes[] = {kSm90Few, kSm90Many, kSm90Brief};

/// The shape that a product takes. It depends only on sizes and is correct for every routing.
constexpr const GroupedShape& sm90_grouped_shape(const GroupedProduct& p) {
  constexpr std::int64_t kFewRows = 24;  // in rows of x per expert
  constexpr std::int64_t kShort = 512;   // of k
  if (p.rows <= kFewRows * p.experts) return kSm90Few;
  return !p.gated && p.k <= kShort ? kSm90Brief : kSm90Many;
}

}  // namespace tilelace::plan
