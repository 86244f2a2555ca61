// SPDX-License-Identifier: Apache-2.0
// A mixture of experts on one GPU: makes the map of a routing, orders rows by expert, multiplies
// them by their expert's weight, and sums each token's rows. No call waits for another rank. The
// host knows no expert's number of rows. Calls are asynchronous, allocate nothing and may be
// captured; a captured call works for every routing. Device pointers are aligned to 16 bytes.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "plan/grouped_product.h"
#include "schedule/moe_map.h"
#include "tilelace/choices.h"
#include "tilelace/dtype.h"

namespace tilelace::cuda {

using plan::kMostMoeExperts;

/// Arguments of make_map; ids are [m, top_k].
struct MakeMap {
  schedule::MoeMap map;
  const void* ids = nullptr;
  bool wide = false;            ///< true: ids are int64; false: int32
  std::int32_t* out = nullptr;  ///< map.words() words; gaps between sections are not written
};
/// Makes the map as fill_moe_map does, but leaves source_of[r] unwritten for each row r of the map;
/// permute_rows writes these entries. An invalid id counts as -1; `wrong` names the first such id.
/// Errors: usage (more experts than kMostMoeExperts, more pairs than kMaxMapPairs, null), system.
void make_map(const MakeMap&, cudaStream_t);

/// to[r] = from[source_of[r] / top_k] for the rows of the map; other rows of `to` are not written.
/// Reads each token once. Also writes source_of of the map's rows.
struct PermuteRows {
  schedule::MoeMap map;
  std::int32_t* words = nullptr;  ///< the map's words
  const void* from = nullptr;     ///< [m, columns]
  void* to = nullptr;             ///< [m * top_k, columns]
  std::int64_t columns = 0;       ///< multiple of 8
  DType dtype{};
  const float* weights =
      nullptr;  ///< [m, top_k]: each row is scaled by its weight, then rounded; null: not scaled
};
/// Errors: usage (null, misaligned, columns), system.
void permute_rows(const PermuteRows&, cudaStream_t);

/// out[t] = the sum of rows[row_of[t, s]] over s = 0 .. top_k - 1 in order, in fp32, plus add[t -
/// add_first] if `add` has that row; rounded once. Slots (t, s) without a row are skipped. A token
/// without any row gets zero, or its row of `add`.
struct SumSlots {
  schedule::MoeMap map;
  const std::int32_t* words = nullptr;  ///< the map's words
  const void* rows = nullptr;           ///< [m * top_k, columns]
  const void* add = nullptr;            ///< [add_rows, columns] or null
  void* out = nullptr;                  ///< [m, columns]; may be `add` if `add` has all tokens
  std::int64_t columns = 0;             ///< multiple of 8
  DType dtype{};
  std::int64_t add_first = 0;  ///< the token of the first row of `add`
  std::int64_t add_rows = 0;   ///< tokens in `add`
};
/// Errors: usage (null, misaligned, columns), system.
void sum_slots(const SumSlots&, cudaStream_t);

/// How a product's columns become results. `one`: each column, activated, is a result. `swiglu`:
/// gates, then ups; a result is silu(gate) * up. `clamped`: gates and ups alternate, gate first; a
/// result is gate * sigmoid(1.702 * gate) * (up + 1), after clamping to gate <= 7, -7 <= up <= 7.
enum class Gating : std::uint8_t { one, swiglu, clamped };

/// out[r] = f(x[r] * weight[e]^T + bias[e]) * scale for begins[e] <= r < begins[e + 1].
struct GroupedGemm {
  const void* x = nullptr;                ///< [rows, k], ordered by expert
  const void* weight = nullptr;           ///< [experts, n, k]; gated: n is twice the columns of out
  const void* bias = nullptr;             ///< [experts, n] or null
  void* out = nullptr;                    ///< [rows, n]; gated: [rows, n / 2]
  const std::int32_t* begins = nullptr;   ///< [experts + 1]: each expert's first row, then the end
  const float* scale = nullptr;           ///< scales results before they are rounded; null: none
  const std::int32_t* sources = nullptr;  ///< row r takes scale[sources[r]]; null: scale[r]
  std::int64_t rows = 0;                  ///< rows in x and in out; at least the end in `begins`
  std::int64_t n = 0, k = 0;              ///< n, k: multiples of 8; gated: n a multiple of 16
  int experts = 0;
  DType dtype{};
  Gating gating = Gating::one;
  Activation activation = Activation::none;  ///< gated: must be none; otherwise any but swiglu
};
plan::GroupedProduct product_of(const GroupedGemm&);
/// The shapes of tiles that the current device has kernels for. Errors: usage (it has none).
std::span<const plan::GroupedShape> grouped_shapes();
/// The shape that a call takes where no table names one. Errors: as above.
const plan::GroupedShape& grouped_shape(const GroupedGemm&);

/// The call, in tiles of one of the device's shapes. Errors: usage (shape, type, null, misaligned,
/// a device without kernels), system.
void grouped_gemm(const GroupedGemm&, const plan::GroupedShape&, cudaStream_t);

/// Loads the kernels of grouped_gemm now, so that calls need not. Errors: usage (a device without
/// kernels), system.
void load_grouped_gemm();
/// Loads the kernels of make_map, permute_rows and sum_slots likewise. Error: system.
void load_moe_rows();

}  // namespace tilelace::cuda
