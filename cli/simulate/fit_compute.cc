// SPDX-License-Identifier: Apache-2.0
#include "simulate/fit_compute.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tilelace::cli {
namespace {

constexpr int kFitRounds = 400;
constexpr double kFirstStep = 0.2, kLastStep = 1e-4;

struct Fitted {
  double sim::Compute::*number;
  double least, most;
};

constexpr std::array<Fitted, 4> kFitted = {{{&sim::Compute::efficiency, 0.05, 1},
                                            {&sim::Compute::power_tflops, 1e-3, 1e6},
                                            {&sim::Compute::memory_gbps, 1e-3, 1e6},
                                            {&sim::Compute::fixed_us, 0.05, 1e3}}};

double loss(const sim::Compute& c, const std::vector<TimedGemm>& timed) {
  double sum = 0;
  for (const TimedGemm& t : timed) {
    const double off = std::log(sim::gemm_time(c, t.product).total_us() / t.us);
    sum += off * off;
  }
  return sum;
}

}  // namespace

sim::Compute fit_compute(sim::Compute c, const std::vector<TimedGemm>& timed) {
  double least = loss(c, timed), step = kFirstStep;
  // One number at a time, up and down by a factor that shrinks when nothing helps.
  for (int round = 0; round < kFitRounds && step > kLastStep; ++round) {
    bool better = false;
    for (const Fitted& f : kFitted) {
      for (const double factor : {1 + step, 1 / (1 + step)}) {
        sim::Compute tried = c;
        tried.*f.number = std::clamp(c.*f.number * factor, f.least, f.most);
        const double left = loss(tried, timed);
        if (left >= least) continue;
        c = tried, least = left, better = true;
      }
    }
    if (!better) step /= 2;
  }
  return c;
}

double worst_error(const sim::Compute& c, const std::vector<TimedGemm>& timed) {
  double worst = 0;
  for (const TimedGemm& t : timed) {
    worst = std::max(worst, std::fabs(sim::gemm_time(c, t.product).total_us() / t.us - 1));
  }
  return worst;
}

}  // namespace tilelace::cli
