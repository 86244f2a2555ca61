// SPDX-License-Identifier: Apache-2.0
// A mixture of experts between its collectives, on one GPU.
#pragma once
#include "backend/moe_passes.h"

namespace tilelace::cuda {

/// Each pass is enqueued on the stream in its arguments; may be captured after `prepare`.
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

 private:
  int device_;
};

}  // namespace tilelace::cuda
