// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/measure/gpus.h"

#include <algorithm>
#include <array>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/measure/fill.h"
#include "backend/cuda/measure/link_bench.h"
#include "backend/cuda/measure/timer.h"
#include "backend/cuda/vendor/cublas.h"
#include "comm/cuda/capabilities.h"
#include "core/check.h"

namespace tilelace::cuda::measure {
namespace {

constexpr std::size_t kOperandBytes = std::size_t{384} << 20;
constexpr std::size_t kWeightBytes = std::size_t{640} << 20;
constexpr std::size_t kCopyBytes = std::size_t{128} << 20;
constexpr std::size_t kLargestMib = 256, kStoreMib = 64;
constexpr int kAlgorithms = 8, kRounds = 7;
constexpr double kQuickMs = 10, kSampleMs = 8;
/// Types of as many bytes take as long.
constexpr DType kMeasured = DType::bf16;

/// A launch and little else; weights alone; waves of tiles; the power limit.
constexpr std::array<std::array<std::int64_t, 3>, 10> kProducts = {{{128, 128, 128},
                                                                    {16, 8192, 8192},
                                                                    {16, 16384, 16384},
                                                                    {256, 8192, 8192},
                                                                    {512, 8192, 8192},
                                                                    {1024, 8192, 8192},
                                                                    {2048, 8192, 8192},
                                                                    {4096, 8192, 8192},
                                                                    {8192, 8192, 8192},
                                                                    {8192, 16384, 8192}}};

/// Products and copies of one rank's device.
class ChipBench {
 public:
  explicit ChipBench(Rank& rank)
      : rank_(rank),
        a_(kOperandBytes),
        weight_(kWeightBytes),
        out_(kOperandBytes),
        timer_(kQuickMs) {
    fill_normal(a_.data(), a_.bytes() / size_of(kMeasured), kMeasured, 1, timer_.stream());
    fill_normal(weight_.data(), weight_.bytes() / size_of(kMeasured), kMeasured, 2,
                timer_.stream());
  }

  double product_us(const plan::GemmProblem& p) {
    const CublasGemm blas(p, kAlgorithms);
    std::vector<Variant> all;
    for (int i = 0; i < blas.algorithms(); ++i) {
      all.push_back({blas.describe(i), [this, &blas, &p, i](int call, cudaStream_t s) {
                       blas.launch(tensors(p, call), i, s);
                     }});
    }
    const double flops =
        2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    const double bytes = 2.0 * static_cast<double>(p.n) * static_cast<double>(p.k);
    return median_us(std::move(all), 5 + std::max(flops / 700e6, bytes / 4e6));
  }

  double copy_gbps() {
    const double bytes = static_cast<double>(kCopyBytes);
    const double us =
        median_us({{"copy",
                    [this](int call, cudaStream_t s) {
                      check(cudaMemcpyAsync(out_.at(call, kCopyBytes), a_.at(call, kCopyBytes),
                                            kCopyBytes, cudaMemcpyDeviceToDevice, s),
                            "a copy");
                    }}},
                  bytes / 2e6);
    return bytes / us * 1e-3;
  }

 private:
  [[nodiscard]] GemmTensors tensors(const plan::GemmProblem& p, int i) const {
    return {a_.at(i, static_cast<std::size_t>(p.m * p.k) * size_of(p.dtype)),
            weight_.at(i, static_cast<std::size_t>(p.n * p.k) * size_of(p.dtype)), nullptr,
            out_.at(i, static_cast<std::size_t>(p.m * p.n) * size_of(p.dtype)), Activation::none};
  }

  /// The fastest variant; the slowest rank's.
  double median_us(std::vector<Variant> all, double guess_us) {
    rank_.meet();
    timer_.first_look(all, guess_us);
    Timer::keep(all, 1);
    rank_.meet();
    timer_.sample(all, kRounds, kSampleMs);
    const double us = all.at(0).median();
    Timer::keep(all, 0);
    return rank_.max(us);
  }

  Rank& rank_;
  Pool a_, weight_, out_;
  Timer timer_;
};

/// Every rank makes the same steps; rank 0 says them.
class Steps {
 public:
  Steps(const Rank& rank, int total, const Say& say) : rank_(rank), total_(total), say_(say) {}
  void next(const std::string& step) {
    if (rank_.rank == 0) say_(done_, total_, step);
    ++done_;
  }

 private:
  const Rank& rank_;
  int total_;
  const Say& say_;
  int done_ = 0;
};

constexpr int kLinkSteps = 6;

Measured checked(LinkBench& bench, const Way& way) {
  const Measured m = bench.run(way);
  if (!m.verified)
    raise(ErrorKind::system, "doctor: {}: {:.0f} words arrived wrong", way.what, m.wrong_words);
  return m;
}

void measure_links(Rank& rank, Steps& steps, GpuRates& out) {
  LinkBench bench(rank, kLargestMib);
  const double peers = rank.ranks - 1;
  const auto step = [&](const Way& way) {
    steps.next(way.what);
    return checked(bench, way);
  };
  out.push_gbps =
      step({"copy engine, push", Mover::copy_engine, false, Timing::queue, 0, kLargestMib})
          .gb_per_s;
  out.pull_gbps =
      step({"copy engine, pull", Mover::copy_engine, true, Timing::host, 0, kLargestMib}).gb_per_s;
  const Measured brief =
      step({"copy engine, 1 MiB", Mover::copy_engine, false, Timing::queue, 0, 1});
  out.copy_us = std::max(0.0, brief.us / peers - 1.048576e3 / out.push_gbps);
  out.store_gbps =
      step({"stores of 32 workers", Mover::threads, false, Timing::queue, 32, kStoreMib}).gb_per_s;
  const Measured eight =
      step({"bulk stores of 8 workers", Mover::bulk, false, Timing::queue, 8, kStoreMib});
  out.store_worker_gbps = eight.gb_per_s / 8;
  steps.next("flags");
  out.flag_us = bench.flag_copy_us();
  out.latency_us = bench.round_trip_us() / 2;
  rank.meet();  // nobody's memory goes while a peer may still use it
}

void measure_rank(Rank& rank, const Say& say, GpuRates& out) {
  const bool linked = rank.ranks > 1;
  Steps steps(rank, static_cast<int>(kProducts.size()) + 1 + (linked ? kLinkSteps : 0), say);
  {
    ChipBench chip(rank);
    for (const auto& [m, n, k] : kProducts) {
      steps.next(fmt::format("GEMM m {} n {} k {}", m, n, k));
      out.products.push_back({m, n, k, chip.product_us({m, n, k, kMeasured})});
    }
    steps.next("copies inside a GPU");
    out.local_gbps = -rank.max(-chip.copy_gbps());
  }
  if (linked) measure_links(rank, steps, out);
}

}  // namespace

GpuRates measure_gpus(const Say& say) {
  GpuRates out;
  out.gpus = comm::device_count();
  if (out.gpus < 1) raise(ErrorKind::system, "doctor: this process sees no GPU");
  const comm::Capabilities c = comm::query_capabilities(0);
  out.name = c.name;
  out.multiprocessors = c.sm_count;
  out.compute_major = c.compute_major, out.compute_minor = c.compute_minor;
  int khz = 0;
  check(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0), "the clock");
  out.clock_ghz = khz * 1e-6;
  run_ranks(out.gpus, [&](Rank& rank) {
    GpuRates mine = out;
    measure_rank(rank, say, mine);
    // Figures are the same on every rank: maxima over all.
    if (rank.rank == 0) out = mine;
  });
  return out;
}

}  // namespace tilelace::cuda::measure
