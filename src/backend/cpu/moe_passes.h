// SPDX-License-Identifier: Apache-2.0
// The passes of a mixture of experts on a CPU rank.
#pragma once
#include <functional>
#include <vector>

#include "backend/cpu/gemm/expert_gemm.h"
#include "backend/moe_passes.h"

namespace tilelace::cpu {

class CpuMoePasses final : public MoePasses {
 public:
  /// Runs job(0) .. job(workers - 1), in parallel or one after the other. Jobs do not throw.
  using Run = std::function<void(const std::function<void(int)>&)>;

  CpuMoePasses(int workers, Run run);

  void make_map(const MapPass&) override;
  void keep_weights(const schedule::MoeMap&, const float* weights, std::int32_t* map,
                    void* stream) override;
  void permute(const PermutePass&) override;
  void grouped_gemm(const GroupedGemmArgs&) override;
  void sum_slots(const SlotSumPass&) override;
  void prepare(std::int64_t k) override;

 private:
  /// Calls body(worker, i) for every i < count, and divides these calls among the workers.
  template <class Body>
  void spread(std::int64_t count, const Body& body);

  Run run_;
  std::vector<ExpertGemm> workers_;
};

}  // namespace tilelace::cpu
