// SPDX-License-Identifier: Apache-2.0
// doctor --measure: a machine file of this machine, for `tilelace simulate`; its CPU ranks.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "backend/cpu/gemm/tile_gemm.h"
#include "backend/cuda_support.h"
#include "comm/signal.h"
#include "comm/std_atomics.h"
#include "core/check.h"
#include "doctor.h"
#include "machine.h"
#include "row.h"
#include "simulate/differences.h"
#include "simulate/machine_file.h"
#include "text_file.h"

namespace tilelace::cli {
namespace {

constexpr int kSamples = 7;
constexpr double kSampleSeconds = 0.05;
constexpr std::int64_t kTileRows = 128, kTileCols = 256, kTerms = 2048;
constexpr std::size_t kCopyBytes = std::size_t{32} << 20;
constexpr int kFlagRounds = 2000;

/// Calls a second of the slowest of all cores that do `call(core)` at once; median over samples.
double rate_of(int cores, const std::function<void(int)>& call) {
  std::vector<double> samples;
  for (int s = 0; s < kSamples; ++s) {
    std::vector<double> rates(static_cast<std::size_t>(cores));
    std::vector<std::thread> threads;
    for (int core = 0; core < cores; ++core) {
      threads.emplace_back([&, core] {
        const double begin = seconds_now();
        int calls = 0;
        do {
          call(core);
          ++calls;
        } while (seconds_now() - begin < kSampleSeconds);
        rates[static_cast<std::size_t>(core)] = calls / (seconds_now() - begin);
      });
    }
    for (std::thread& t : threads) t.join();
    samples.push_back(*std::min_element(rates.begin(), rates.end()));
  }
  return quantile(samples, 0.5);
}

double measured_tflops(int cores) {
  const std::size_t elements = kTileCols * kTerms;
  std::vector<std::uint16_t> weight(elements, 0x3c00), rows(kTileRows * kTerms, 0x3c00);
  const TensorView view{weight.data(), DType::bf16, kTileCols, kTerms, kTerms};
  const cpu::PackedWeight packed(view, kTileCols);
  std::vector<cpu::TileGemm> gemms;
  std::vector<std::vector<float>> out;
  for (int c = 0; c < cores; ++c) {
    gemms.emplace_back(static_cast<int>(kTileRows)).prepare(packed);
    out.emplace_back(kTileRows * kTileCols);
  }
  const double calls = rate_of(cores, [&](int core) {
    const auto c = static_cast<std::size_t>(core);
    gemms[c].run(packed, 0, rows.data(), kTerms, kTileRows, out[c].data(), kTileCols);
  });
  return calls * 2.0 * kTileRows * kTileCols * kTerms * 1e-12;
}

double measured_copy_gbps(int cores) {
  std::vector<std::vector<char>> from, to;
  for (int c = 0; c < cores; ++c) {
    from.emplace_back(kCopyBytes, 1);
    to.emplace_back(kCopyBytes);
  }
  const double calls = rate_of(cores, [&](int core) {
    const auto c = static_cast<std::size_t>(core);
    std::memcpy(to[c].data(), from[c].data(), kCopyBytes);
  });
  return calls * static_cast<double>(kCopyBytes) * 1e-9;
}

/// Half a round trip of flags between two threads, as ranks signal and wait.
double measured_latency_us() {
  struct alignas(64) Line {
    comm::Flag flag = 0;
  };
  Line there, back;
  const comm::AbortWord calm = 0;
  const auto wait = [&](const comm::Flag& flag, std::uint32_t epoch) {
    comm::Flag seen = 0;
    comm::wait<comm::StdAtomics>(&flag, epoch, &calm, comm::StdAtomics::now_ns() + 10'000'000'000LL,
                                 seen);
  };
  std::thread peer([&] {
    for (std::uint32_t i = 1; i <= kFlagRounds; ++i) {
      wait(there.flag, i);
      comm::signal<comm::StdAtomics>(&back.flag, i);
    }
  });
  const double begin = seconds_now();
  for (std::uint32_t i = 1; i <= kFlagRounds; ++i) {
    comm::signal<comm::StdAtomics>(&there.flag, i);
    wait(back.flag, i);
  }
  const double seconds = seconds_now() - begin;
  peer.join();
  return seconds / kFlagRounds / 2 * 1e6;
}

/// Fills in what is no constant of a CPU or was not measured.
void set_assumed(sim::MachineModel& m, double copy_gbps) {
  m.max_nodes = 1;
  m.compute.l2_gbps = m.compute.power_tflops = 1e4;
  m.compute.fixed_us = 20;
  m.links.push_gbps = m.links.mesh_gbps = m.links.pull_gbps = m.links.store_gbps =
      m.links.store_worker_gbps = copy_gbps;
  m.links.copy_us = 10;
  m.collectives.all_gather = m.collectives.reduce_scatter = m.collectives.all_reduce = {100, 0};
  m.collectives.wire_gbps = copy_gbps;
  m.method.fused_call_us = m.method.medium_call_us = 100;
  m.method.sum_gbps = 2 * copy_gbps;
  m.method.fused_tile_rows = kTileRows;
  m.method.name = "tilelace";
}

}  // namespace

MeasuredMachine measure_cpu_ranks() {
  const int cores = cpu_cores();
  sim::MachineModel m;
  m.name = "this-machine";
  m.device = device_name();
  m.ranks_per_node = cores;
  m.compute.multiprocessors = 1;
  m.compute.peak_tflops = measured_tflops(cores);
  const double copy = measured_copy_gbps(cores);
  m.compute.memory_gbps = 2 * copy;
  m.links.local_gbps = copy;
  m.links.latency_us = measured_latency_us();
  set_assumed(m, copy);
  m.error = {100, 100, "not compared with any call of this machine"};
  m.experts = {1, 1, 100, "not predicted: CPU ranks"};
  Sources sources;
  const auto measured =
      fmt::format("measured by doctor --measure, {}, all {} cores at once", utc_now(), cores);
  each_source_of(m, [&](const std::string& key) { sources[key] = "assumed for CPU ranks"; });
  for (const char* key : {"compute.peak_tflops", "compute.memory_gbps", "links.local_gbps",
                          "links.push_gbps", "links.pull_gbps", "links.store_gbps",
                          "links.store_worker_gbps", "links.latency_us", "collectives.wire_gbps"}) {
    sources[key] = measured;
  }
  Report().line("GEMM of a core", fmt::format("{:.1f} GFLOP/s bf16", 1e3 * m.compute.peak_tflops));
  Report().line("copy of a core", fmt::format("{:.1f} GB/s", copy));
  Report().line("flag, one way", fmt::format("{:.2f} us", m.links.latency_us));
  return {std::move(m), std::move(sources), fmt::format("--tp {}", std::min(cores, 2))};
}

void measure_machine(const MeasureRequest& request) {
  require(request.backend.empty() || request.backend == "cpu" || request.backend == "cuda",
          "--backend: got \"{}\", expected cpu or cuda", request.backend);
  const std::string missing = cuda_missing();
  const bool gpus = request.backend == "cuda" || (request.backend.empty() && missing.empty());
  require(!gpus || missing.empty(), "--backend cuda: {}", missing);
  // Not after half a minute of measuring.
  const sim::MachineModel other = request.compare.empty()
                                      ? sim::MachineModel()
                                      : read_machine(request.compare, nullptr, "--compare");
  const sim::MachineModel known =
      gpus ? read_machine("h200x4", nullptr, "--measure: machine file for what is not measured")
           : sim::MachineModel();
  require_writable("--measure", request.path);
  if (!gpus && request.backend.empty())
    Report().line("measuring", fmt::format("CPU ranks; no GPUs: {}", missing));
  const MeasuredMachine m = gpus ? measure_gpu_ranks(known) : measure_cpu_ranks();
  check_machine(m.machine);
  write_text("--measure", request.path, machine_text(m.machine, m.sources));
  if (!request.compare.empty()) fmt::print("\n{}", differences_text(m.machine, m.sources, other));
  fmt::print("\nwrote {}, of {} ranks\nNext:\n", request.path, gpus ? "GPU" : "CPU");
  fmt::print("  tilelace simulate --machine {} --model llama3.1-8b {} --m 512\n", request.path,
             m.ranks);
}

}  // namespace tilelace::cli
