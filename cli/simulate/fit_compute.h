// SPDX-License-Identifier: Apache-2.0
// The constants of a chip from products that were timed on it.
#pragma once
#include <vector>

#include "sim/gemm_model.h"

namespace tilelace::cli {

struct TimedGemm {
  sim::Product product;
  double us = 0;
};

/// compute with efficiency, power_tflops, memory_gbps and fixed_us such that its predictions are
/// nearest, by the logarithms' squares; all else stays. Needs products that memory, tensor cores
/// and launches bind.
sim::Compute fit_compute(sim::Compute compute, const std::vector<TimedGemm>& timed);

/// Largest |predicted / timed - 1|.
double worst_error(const sim::Compute&, const std::vector<TimedGemm>&);

}  // namespace tilelace::cli
