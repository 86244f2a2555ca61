// SPDX-License-Identifier: Apache-2.0
// The Flux paper's measurements (arXiv 2406.06858, section 5): GPT-3 175B's (n, k) over eight
// ranks, all-gather and reduce-scatter, three clusters. The figures are printed for
// docs/simulate.md.
#include <fmt/core.h>

#include <utility>

#include "night.h"
#include "records.h"
#include "simulate/machine_file.h"

namespace tilelace::sim {
namespace {

struct Range {
  double least = 0, most = 0;
};

struct Cluster {
  const char* machine;
  const char* method;
  Range speedup, fused, medium;     ///< m 1024..8192: over medium-grained; overlap efficiencies
  Range small_fused, small_medium;  ///< m 64 and 512
  double at_1024 = 0;               ///< how much farther medium-grained may be out at m 1024
};

const Cluster kClusters[] = {
    {"a100-pcie-x8",
     "flux-sm80",
     {1.20, 3.25},
     {0.41, 0.57},
     {-1.25, 0.36},
     {-0.02, 0.41},
     {-2.13, -0.36}},
    {"a100-nvlink-x8",
     "flux-sm80",
     {1.01, 1.33},
     {0.36, 0.96},
     {-0.99, 0.74},
     {0.14, 0.88},
     {-3.25, -0.49}},
    {"h800-nvlink-x8",
     "flux",
     {1.10, 1.51},
     {0.37, 0.93},
     {-0.40, 0.80},
     {-1.65, -0.82},
     {-1.42, -0.93},
     // Eight stages of 14 us, cuBLASMp's, are half of the GEMM there. Those of the paper's method
     // were not measured: they must have been shorter.
     0.17},
};

MachineModel machine_of(const Cluster& c) {
  MachineModel machine = cli::read_machine(c.machine);
  cli::read_method(c.method, machine);
  return machine;
}

Prediction at(const MachineModel& machine, Op op, std::int64_t m) {
  const bool gather = op == Op::ag_gemm;
  const Call call = call_of_product(op, 8, m, gather ? 49152 : 12288, gather ? 12288 : 49152);
  return predict(machine, call);
}
Prediction at(const Cluster& c, Op op, std::int64_t m) { return at(machine_of(c), op, m); }

void print(const Cluster& c, Op op, std::int64_t m, const Prediction& p) {
  fmt::print(
      "| {} | {} | {} | {:.0f} | {:.0f} | {:.0f} | {:.0f} | {:.2f} | {:.0f} % | {:.0f} % |\n",
      c.machine, name_of(op), m, p.gemm_us, p.unfused_us, p.medium_us, p.fused_us,
      p.medium_us / p.fused_us, 100 * *p.medium_efficiency(), 100 * *p.efficiency());
}

constexpr double kPoints = 0.15;
/// At m 8192 on A100 NVLink both methods are near the GEMM, and what is assumed of both, 4 % of the
/// rate and 14 us a product, decides.
constexpr double kOrderPoints = 0.07;
void expect_within(double value, Range r, const char* what, const Cluster& c, std::int64_t m,
                   double more = 0) {
  EXPECT_GE(value, r.least - kPoints - more) << what << " of " << c.machine << " m " << m;
  EXPECT_LE(value, r.most + kPoints + more) << what << " of " << c.machine << " m " << m;
}

TEST(SimPaper, LargeMLiesWithinTheRanges) {
  fmt::print(
      "| cluster | op | m | GEMM | unfused | medium | fused | medium / fused | E medium | E fused "
      "|\n");
  for (const Cluster& c : kClusters) {
    for (const Op op : {Op::ag_gemm, Op::gemm_rs}) {
      for (const std::int64_t m : {1024, 2048, 4096, 8192}) {
        if (night_times() == 1 && (m == 2048 || m == 8192)) continue;
        const Prediction p = at(c, op, m);
        print(c, op, m, p);
        const double more = m == 1024 ? c.at_1024 : 0;
        expect_within(p.medium_us / p.fused_us, c.speedup, "speed-up", c, m, more);
        expect_within(*p.efficiency(), c.fused, "E fused", c, m);
        expect_within(*p.medium_efficiency(), c.medium, "E medium", c, m, more);
        EXPECT_GT(*p.efficiency(), 0) << c.machine << " m " << m;
        EXPECT_GE(*p.efficiency(), *p.medium_efficiency() - kOrderPoints)
            << c.machine << " m " << m;
      }
    }
  }
}

/// Sign and order at m 64 and 512.
TEST(SimPaper, SmallMHasTheRightSigns) {
  for (const Cluster& c : kClusters) {
    for (const Op op : {Op::ag_gemm, Op::gemm_rs}) {
      for (const std::int64_t m : {64, 512}) {
        const Prediction p = at(c, op, m);
        print(c, op, m, p);
        EXPECT_GE(*p.efficiency(), *p.medium_efficiency()) << c.machine << " m " << m;
        EXPECT_EQ(*p.efficiency() > 0, c.small_fused.most > 0) << c.machine << " m " << m;
        EXPECT_LT(*p.medium_efficiency(), 0) << c.machine << " m " << m;
      }
    }
  }
}

double& socket_gbps(MachineModel& m) { return m.links.socket_gbps; }
double& socket_flag_us(MachineModel& m) { return m.links.socket_flag_us; }

/// Both numbers of the PCIe cluster that were fitted to its ranges may be 5 % and 15 % off.
TEST(SimPaper, SignsHoldBesideTheFittedNumbers) {
  const Cluster& c = kClusters[0];
  for (const auto& [rate, flag] : {std::pair{0.95, 0.85}, std::pair{0.95, 1.15},
                                   std::pair{1.05, 0.85}, std::pair{1.05, 1.15}}) {
    MachineModel machine = machine_of(c);
    machine.links.socket_gbps *= rate;
    machine.links.socket_flag_us *= flag;
    for (const Op op : {Op::ag_gemm, Op::gemm_rs}) {
      for (const std::int64_t m : {64, 512}) {
        const Prediction p = at(machine, op, m);
        print(c, op, m, p);
        EXPECT_GT(*p.efficiency(), 0) << rate << " " << flag << " m " << m;
        EXPECT_LT(*p.medium_efficiency(), 0) << rate << " " << flag << " m " << m;
      }
    }
  }
}

/// With what was assumed of the PCIe cluster before, a sign is wrong, and each number that turns it
/// when it is changed alone makes another point leave the paper's widened range; but for the flag's
/// cost, which turns it and breaks none (docs/simulate.md).
TEST(SimPaper, WhatOneNumberAloneDoesToTheSign) {
  struct Change {
    const char* what;
    double number;
    double& (*of)(MachineModel&);
    Op op;
    std::int64_t m;
    bool breaks;
  };
  const Change changes[] = {
      {"links.socket_gbps", 6, socket_gbps, Op::gemm_rs, 1024, true},
      {"collectives.socket_gbps", 16,
       [](MachineModel& m) -> double& { return m.collectives.socket_gbps; }, Op::gemm_rs, 1024,
       true},
      {"method.medium_stage_us", 150,
       [](MachineModel& m) -> double& { return m.method.medium_stage_us; }, Op::ag_gemm, 64, true},
      {"links.socket_flag_us", 110, socket_flag_us, Op::gemm_rs, 1024, false},
  };
  const Cluster& c = kClusters[0];
  MachineModel before = machine_of(c);
  before.links.socket_gbps = 9.9;
  before.links.socket_flag_us = 0;
  EXPECT_GT(*at(before, Op::ag_gemm, 512).medium_efficiency(), 0);
  for (const Change& change : changes) {
    MachineModel machine = before;
    change.of(machine) = change.number;
    const double turned = *at(machine, Op::ag_gemm, 512).medium_efficiency();
    const double other = *at(machine, change.op, change.m).medium_efficiency();
    fmt::print("{} {} -> {}: E medium of ag_gemm m 512 {:.0f} %; of {} m {} {:.0f} %\n",
               change.what, change.of(before), change.number, 100 * turned, name_of(change.op),
               change.m, 100 * other);
    EXPECT_LT(turned, 0) << change.what;
    const Range& paper = change.m >= 1024 ? c.medium : c.small_medium;
    EXPECT_EQ(other < paper.least - kPoints, change.breaks) << change.what;
  }
  MachineModel copies = before;
  copies.links.copy_us = 110;
  EXPECT_LT(*at(copies, Op::ag_gemm, 512).medium_efficiency(), 0);
  EXPECT_LT(*at(copies, Op::ag_gemm, 64).efficiency(), c.small_fused.least - kPoints);
}

/// Flux's own figures on eight L20 (docs/performance.md of its repository), ms. The links are those
/// measured on eight L40S elsewhere, so fused is a prediction; no bar of ours.
TEST(SimPaper, EightL20) {
  MachineModel m = cli::read_machine("l20-pcie-x8");
  cli::read_method("flux-sm80", m);
  m.method.unfused_call_us = 0;
  for (const auto& [op, unfused, fused] :
       {std::tuple{Op::ag_gemm, 16.946, 5.903}, std::tuple{Op::gemm_rs, 17.664, 5.730}}) {
    const bool gather = op == Op::ag_gemm;
    const Call call = call_of_product(op, 8, 4096, gather ? 49152 : 12288, gather ? 12288 : 49152);
    const Prediction p = predict(m, call);
    fmt::print("8x L20 {}: unfused {:.2f} ms, measured {:.2f}; fused {:.2f}, measured {:.2f}\n",
               name_of(op), p.unfused_us / 1e3, unfused, p.fused_us / 1e3, fused);
    EXPECT_NEAR(p.unfused_us / 1e3 / unfused, 1, 0.15);
    EXPECT_NEAR(p.fused_us / 1e3 / fused, 1, 0.15);
  }
}

}  // namespace
}  // namespace tilelace::sim
