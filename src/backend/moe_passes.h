// SPDX-License-Identifier: Apache-2.0
// The passes of a mixture of experts between its collectives. They work on one rank's memory, in
// stream order. No pass waits for another rank, and on GPUs none waits for the host.
#pragma once
#include "schedule/moe_map.h"
#include "tilelace/moe.h"

namespace tilelace {

/// Writes the map (schedule/moe_map.h) of ids [m, top_k], except weights and, on GPUs, source_of.
struct MapPass {
  schedule::MoeMap shape;
  const void* ids = nullptr;
  Item type = Item::i32;  ///< i32 or i64
  std::int32_t* map = nullptr;
  void* stream = nullptr;
};

/// rows[r] = x[source_of[r] / top_k] for each row r of the map; if `weighted`, times the row's
/// weight, in fp32. On GPUs this pass, which runs on all multiprocessors, also writes the map's
/// source_of.
struct PermutePass {
  schedule::MoeMap shape;
  std::int32_t* map = nullptr;
  TensorView x;     ///< [m, n]
  TensorView rows;  ///< [m * top_k, n]
  bool weighted = false;
  void* stream = nullptr;
};

/// out[t] = sum over the top_k slots, in order and in fp32, of rows[row_of[t, slot]] if the slot
/// has a row on this rank, plus add[t - first]; rounded once.
struct SlotSumPass {
  schedule::MoeMap shape;
  const std::int32_t* map = nullptr;
  TensorView rows;  ///< [m * top_k, n]
  TensorView add;   ///< empty, or a row for each token in [first, first + add.rows)
  std::int64_t first = 0;
  TensorView out;  ///< [m, n]
  void* stream = nullptr;
};

class MoePasses {
 public:
  MoePasses() = default;
  MoePasses(const MoePasses&) = delete;
  MoePasses& operator=(const MoePasses&) = delete;
  virtual ~MoePasses() = default;

  virtual void make_map(const MapPass&) = 0;
  /// Copies the router's weights [m, top_k] into the map.
  virtual void keep_weights(const schedule::MoeMap&, const float* weights, std::int32_t* map,
                            void* stream) = 0;
  virtual void permute(const PermutePass&) = 0;
  /// The caller has checked the arguments, except for the values in `begins` and `sources`.
  virtual void grouped_gemm(const GroupedGemmArgs&) = 0;
  virtual void sum_slots(const SlotSumPass&) = 0;
  /// Allocates the scratch memory of products with this k. Call it before such products. May throw
  /// std::bad_alloc.
  virtual void prepare(std::int64_t k) = 0;
};

}  // namespace tilelace
