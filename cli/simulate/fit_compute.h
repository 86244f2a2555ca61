// SPDX-License-Identifier: Apache-2.0
// Fits the constants of a chip to GEMMs that were timed on it.
#pragma once
#include <vector>

#include "sim/gemm_model.h"

namespace tilelace::cli {

struct TimedGemm {
  sim::Product product;
  double us = 0;
};

/// `compute` with the efficiency, power_tflops, memory_gbps and fixed_us whose predictions fit best
/// (least squares of logarithms); other constants stay. Some of the products must be limited by
/// memory, some by tensor cores, and some by the launch.
sim::Compute fit_compute(sim::Compute compute, const std::vector<TimedGemm>& timed);

/// The largest |predicted / timed - 1| of all products.
double worst_error(const sim::Compute&, const std::vector<TimedGemm>&);

}  // namespace tilelace::cli
