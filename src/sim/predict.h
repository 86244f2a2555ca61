// SPDX-License-Identifier: Apache-2.0
// Predicts the times of a call's GEMM alone, of its collective alone, and of the call if unfused,
// medium (a GEMM per shard) or fused. The benchmarks report the same figures.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/call.h"

namespace tilelace::sim {

/// Time of the library's collective alone.
double collective_us(const MachineModel&, const Call&);
/// Time of the collective and the GEMM, one after the other. A collective draws less power than a
/// GEMM, so a GEMM after a collective may run faster than in a sequence of GEMMs.
double unfused_us(const MachineModel&, const Call&);

struct Tried {
  Plan plan;
  double us = 0;
};

struct Prediction {
  GemmTime gemm;
  double least_gemm_us = 0;  ///< time of the GEMM at peak rates
  double gemm_us = 0, collective_us = 0, unfused_us = 0, medium_us = 0, fused_us = 0;
  Plan plan, medium_plan;  ///< `plan`: fastest fused plan; `medium_plan`: fastest medium plan
  Outcome fused, medium;
  std::vector<Tried> tried;  ///< every plan of Candidates::fused, in the order tried

  [[nodiscard]] double ect_us() const { return fused_us - gemm_us; }
  [[nodiscard]] double medium_ect_us() const { return medium_us - gemm_us; }
  /// 1 - ect_us() / (unfused_us - gemm_us); absent if unfused_us <= gemm_us.
  [[nodiscard]] std::optional<double> efficiency() const;
  [[nodiscard]] std::optional<double> medium_efficiency() const;
  [[nodiscard]] double speedup() const { return unfused_us / fused_us; }
  /// A lower bound of the fused call's time: the largest of the GEMM's time at peak rates, the busy
  /// time of the busiest wire and the busy time of the busiest NIC.
  [[nodiscard]] double roof_us() const;
  /// What is busiest in the fused call: "power", "tensor cores", "memory", "launch", "links" or
  /// "network"; "latency" if nothing is busy half of the time.
  [[nodiscard]] std::string bound() const;
};

struct Candidates {
  std::vector<Plan> fused, medium;
};

/// Told before each plan that is simulated: its number, from 1, and how many there are.
using OnPlan = std::function<void(std::size_t plan, std::size_t all)>;

/// Simulates all candidates and returns the fastest plan of each list. `with_spans`: records the
/// spans of the fastest plan of Candidates::fused.
Prediction predict(const MachineModel&, const Call&, const Candidates&, const Disturbance& = {},
                   bool with_spans = false, const OnPlan& on_plan = {});
/// The same, with the plans of fused_plans and medium_plans (sim/call.h) as candidates.
Prediction predict(const MachineModel&, const Call&);

}  // namespace tilelace::sim
