// SPDX-License-Identifier: Apache-2.0
// doctor --measure on GPUs: a machine file from products, copies and links timed here.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "backend/cuda/measure/gpus.h"
#include "doctor.h"
#include "machine.h"
#include "progress.h"
#include "session.h"
#include "simulate/fit_compute.h"
#include "simulate/machine_file.h"
#include "time_limit.h"

namespace tilelace::cli {
namespace {

using cuda::measure::GpuRates;

/// Dense bf16 operations a clock and multiprocessor, by NVIDIA's data sheets; 0: not known.
double flops_a_clock(int major, int minor) {
  switch (10 * major + minor) {
    case 80: return 2048;
    case 86:
    case 89: return 1024;
    case 90: return 4096;
    default: return 0;
  }
}

/// Of all measuring: twice what it takes.
constexpr double kMostSeconds = 60;

/// Bytes that L2 gives one multiprocessor a clock.
constexpr double kL2Bytes = 64;

void set_links(const GpuRates& r, sim::Links& l) {
  l.topology = sim::Topology::all_to_all;
  l.mesh_gbps *= r.push_gbps / l.push_gbps;  // drift was not measured
  l.push_gbps = r.push_gbps;
  l.pull_gbps = r.pull_gbps;
  l.store_gbps = r.store_gbps;
  l.store_worker_gbps = r.store_worker_gbps;
  l.latency_us = r.latency_us;
  l.copy_us = r.copy_us;
  l.flag_us = r.flag_us;
}

std::vector<TimedGemm> timed_of(const GpuRates& r) {
  std::vector<TimedGemm> timed;
  for (const auto& p : r.products) timed.push_back({{p.m, p.n, p.k, 2}, p.us});
  return timed;
}

void print_products(const sim::Compute& compute, const std::vector<TimedGemm>& timed) {
  for (const TimedGemm& t : timed) {
    const double us = sim::gemm_time(compute, t.product).total_us();
    Report().line("GEMM", fmt::format("m {:>5} n {:>5} k {:>5}  {:9.1f} us  {:6.1f} TFLOP/s  "
                                      "model {:9.1f} us {:+5.1f} %",
                                      t.product.m, t.product.n, t.product.k, t.us,
                                      t.product.flops() / t.us * 1e-6, us, 100 * (us / t.us - 1)));
  }
}

void print_links(const GpuRates& r) {
  Report().line("copy in a GPU", fmt::format("{:.0f} GB/s", r.local_gbps));
  if (r.gpus < 2) return Report().line("links", "not measured: one GPU");
  Report().line("copy engine", fmt::format("push {:.0f} GB/s, pull {:.0f}; {:.1f} us a copy beyond "
                                           "its bytes, {:.1f} us a flag",
                                           r.push_gbps, r.pull_gbps, r.copy_us, r.flag_us));
  Report().line("stores", fmt::format("{:.0f} GB/s, {:.0f} a multiprocessor", r.store_gbps,
                                      r.store_worker_gbps));
  Report().line("flag, one way", fmt::format("{:.2f} us", r.latency_us));
}

/// Sources of everything, and who was measured.
Sources sources_of(const sim::MachineModel& m, const GpuRates& r, bool known_peak) {
  Sources sources;
  each_source_of(m, [&](const std::string& key) {
    sources[key] = key == "ranks_per_node" ? "measured: the GPUs that are seen"
                                           : "as on h200x4, not measured here";
  });
  const auto measured =
      fmt::format("measured by doctor --measure, {}, all GPUs at once", utc_now());
  const auto fitted = fmt::format("{}: fitted to {} products", measured, r.products.size());
  for (const char* key : {"efficiency", "power_tflops", "memory_gbps", "fixed_us"})
    sources[fmt::format("compute.{}", key)] = fitted;
  sources["compute.tile_us"] = "part of the rate";
  sources["compute.multiprocessors"] = sources["compute.capability"] =
      "measured: the driver's attribute";
  sources["compute.peak_tflops"] =
      known_peak ? fmt::format(
                       "measured: {} multiprocessors at the driver's {:.3f} GHz, data sheet's "
                       "operations a clock",
                       r.multiprocessors, r.clock_ghz)
                 : "assumed: 1.25 times the fastest product timed";
  sources["compute.l2_gbps"] = fmt::format("{} bytes a clock, {:.3f} GHz", kL2Bytes, r.clock_ghz);
  sources["links.local_gbps"] = measured;
  if (r.gpus < 2) return sources;
  for (const char* key : {"push_gbps", "pull_gbps", "store_gbps", "store_worker_gbps", "latency_us",
                          "copy_us", "flag_us"})
    sources[fmt::format("links.{}", key)] = measured;
  sources["links.mesh_gbps"] = "as on h200x4 against push_gbps, not measured here";
  sources["collectives.wire_gbps"] = "as links.store_gbps: NCCL moves bytes the same way";
  return sources;
}

GpuRates measured_rates() {
  Progress progress(1, false, true);
  TimeLimit limit("doctor --measure", kMostSeconds, kSystem);
  return cuda::measure::measure_gpus([&](int done, int total, const std::string& step) {
    limit.step(step);
    progress.set(done, total, step);
  });
}

}  // namespace

MeasuredMachine measure_gpu_ranks(const sim::MachineModel& known) {
  const GpuRates r = measured_rates();
  sim::MachineModel m = known;
  m.name = "this-machine";
  m.device = r.name;
  m.ranks_per_node = r.gpus;
  m.max_nodes = 1;
  const auto timed = timed_of(r);
  double fastest = 0;
  for (const TimedGemm& t : timed) fastest = std::max(fastest, t.product.flops() / t.us * 1e-6);
  const double clock_flops = flops_a_clock(r.compute_major, r.compute_minor);
  m.compute.multiprocessors = r.multiprocessors;
  m.compute.capability = 10 * r.compute_major + r.compute_minor;
  m.compute.peak_tflops =
      clock_flops > 0 ? r.multiprocessors * r.clock_ghz * 1e-3 * clock_flops : 1.25 * fastest;
  m.compute.l2_gbps = kL2Bytes * r.clock_ghz;
  m.compute.power_tflops = fastest;
  m.compute.tile_us = 0;
  m.compute = fit_compute(m.compute, timed);
  m.links.local_gbps = r.local_gbps;
  if (r.gpus > 1) {
    set_links(r, m.links);
    m.collectives.wire_gbps = r.store_gbps;
  }
  m.error = {
      100, 100,
      fmt::format("predicted calls were not compared with measured ones; predicted products differ "
                  "from {} measured ones by at most {:.0f} %",
                  timed.size(), 100 * worst_error(m.compute, timed))};
  m.experts.error_percent = 100;
  m.experts.text = "predicted layers were not compared with measured ones";
  print_products(m.compute, timed);
  print_links(r);
  fmt::print("\n");
  print_filled(
      "Collectives, power, the network and the overhead of an implementation are those of h200x4. "
      "Links count as a switch's: for a PCIe tree write topology, uplinks and the link between "
      "sockets into the file by hand.");
  Sources sources = sources_of(m, r, clock_flops > 0);
  return {std::move(m), std::move(sources), "--tp " + std::to_string(r.gpus)};
}

}  // namespace tilelace::cli
