// SPDX-License-Identifier: Apache-2.0
// The passes (local kernels) of a mixture of experts between its collectives, on one GPU.
#pragma once
#include "backend/moe_passes.h"
#include "core/recent.h"
#include "plan/grouped_product.h"
#include "tilelace/plan.h"

namespace tilelace::cuda {

/// Each pass is enqueued on the stream in its arguments. After `prepare`, a pass may be captured.
class GpuMoePasses : public MoePasses {
 public:
  explicit GpuMoePasses(int device) : device_(device) {}
  void make_map(const MapPass&) override;
  void keep_weights(const schedule::MoeMap&, const float* weights, std::int32_t* map,
                    void* stream) override;
  void permute(const PermutePass&) override;
  void grouped_gemm(const GroupedGemmArgs&) override;
  void sum_slots(const SlotSumPass&) override;
  /// Loads the kernels. Errors: system.
  void prepare(std::int64_t k) override;
  /// From now on, chooses tiles by this machine's tables. Before this call, no table is used.
  void take_machine(const Machine&);

 private:
  int device_;
  Machine machine_;
  struct ProductHash {
    std::size_t operator()(const plan::GroupedProduct&) const;
  };
  Recent<plan::GroupedProduct, plan::GroupedShape, ProductHash> shapes_{4096};
};

}  // namespace tilelace::cuda
