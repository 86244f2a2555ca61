// SPDX-License-Identifier: Apache-2.0
// gpu_api_check: the public API on all GPUs of this machine, a thread a rank, or (--launched) as
// one of the processes that torchrun, mpirun or `tilelace launch` started. Exit 0: all right, 1:
// something was wrong, 2: usage, 3: the system.
#include <CLI/CLI.hpp>
#include <chrono>

#include "api/checks.h"
#include "comm/cuda/capabilities.h"
#include "core/check.h"
#include "program.h"

namespace tilelace::gpu_test {
namespace {

struct Options {
  int ranks = 0;
  std::string only;
  bool launched = false;
};

std::vector<Check> all_checks() {
  std::vector<Check> all;
  for (auto make : {result_checks, sum_checks, graph_checks, misuse_checks, sum_misuse_checks,
                    nccl_checks, share_checks, fault_checks})
    for (Check& c : make()) all.push_back(std::move(c));
  return all;
}

bool wanted(const Check& c, const Options& o, int ranks) {
  return c.name.find(o.only) != std::string::npos && (ranks > 1 || !c.needs_peers) &&
         (!o.launched || c.launched);
}

/// True: nothing was found.
bool tell(const std::string& name, const Finding& found, double seconds) {
  fmt::print("{:7} {:40} {:6.1f} s{}{}\n", found.empty() ? "ok" : "WRONG", name, seconds,
             found.empty() ? "" : "\n        ", found);
  std::fflush(stdout);
  return found.empty();
}

double now_s() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

int run_threads(const Options& o) {
  const int devices = comm::device_count();
  const int ranks = o.ranks > 0 ? o.ranks : devices;
  require(ranks >= 1 && ranks <= devices, "--ranks: got {} with {} GPUs, expected 1 to {}", ranks,
          devices, devices);
  fmt::print("{} ranks as threads on {} GPUs\n", ranks, devices);
  bool good = true;
  for (const Check& c : all_checks()) {
    if (!wanted(c, o, ranks)) continue;
    const double begin = now_s();
    const Finding found = on_threads(ranks, c.timeout_s, c.body, c.max_workers);
    good = tell(c.name, found, now_s() - begin) && good;
  }
  fmt::print("{}\n", good ? "all right" : "WRONG");
  return good ? 0 : 1;
}

int run_launched(const Options& o) {
  CommunicatorOptions options;
  options.device = Device::cuda;
  options.timeout_s = 20;
  Communicator comm = Communicator::launched(options);
  DeviceBuffer probe(comm, 16);
  cudaPointerAttributes at{};
  require(cudaPointerGetAttributes(&at, probe.data()) == cudaSuccess,
          "--launched: got no device memory, expected some");
  bool good = true;
  for (const Check& c : all_checks()) {
    if (!wanted(c, o, comm.size())) continue;
    const double begin = now_s();
    const Finding found = with_member(comm, at.device, options.timeout_s, c.body);
    if (comm.rank() == 0 || !found.empty()) good = tell(c.name, found, now_s() - begin) && good;
    if (!found.empty()) return 1;
  }
  if (comm.rank() == 0) fmt::print("{} ranks as processes: all right\n", comm.size());
  return good ? 0 : 1;
}

}  // namespace
}  // namespace tilelace::gpu_test

int main(int argc, char** argv) {
  using namespace tilelace::gpu_test;
  // Of captured calls by NCCL. Before any thread; what is set already stays, and is refused later.
  setenv("NCCL_GRAPH_REGISTER", "0", 0);
  CLI::App app("Checks the public API on the GPUs of this machine");
  Options o;
  app.add_option("--ranks", o.ranks, "ranks (default: every GPU)");
  app.add_option("--only", o.only, "only checks with this in their name");
  app.add_flag("--launched", o.launched, "as the rank that a launcher says");
  return run_program("gpu_api_check", app, argc, argv,
                     [&] { return o.launched ? run_launched(o) : run_threads(o); });
}
