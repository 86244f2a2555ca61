// SPDX-License-Identifier: Apache-2.0
#include "ops/session.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/current_device.h"
#include "backend/cuda/gemm/gemm_call.h"
#include "backend/cuda/vendor/cublas.h"
#include "comm/cuda/capabilities.h"
#include "core/check.h"
#include "device_architecture.h"
#include "ops/cases.h"
#include "program.h"
#include "watchdog.h"

namespace tilelace::gpu_test {
namespace {

constexpr int kForCopies = 2;  ///< multiprocessors left free where ranks share a device

/// Ranks that share a device wait for each other there, as users' may not. With fewer queues than
/// streams one rank's work stands behind another's that waits for it. The driver, which has been
/// asked for its devices, reads the setting as it starts, so: once more from the beginning.
void begin_for_shares(char** argv) {
  if (std::getenv("CUDA_DEVICE_MAX_CONNECTIONS") != nullptr) return;
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
  execv("/proc/self/exe", argv);
}

}  // namespace

void add_options(CLI::App& app, SessionOptions& o, const std::vector<std::string>& ops) {
  app.add_option("--ranks", o.ranks, "ranks (default: every GPU; more share devices)");
  app.add_option("--seed", o.seed, "of problems and data")->capture_default_str();
  app.add_option("--ops", o.ops, fmt::format("of {}", fmt::join(ops, ", ")))
      ->delimiter(',')
      ->check(CLI::IsMember(ops));
  app.add_option("--kinds", o.kinds,
                 "of plans, as the output names them: only problems that have these "
                 "(default: all but those that take libnccl, cublas or the switch, and an "
                 "ag_gemm's unfused ones)")
      ->delimiter(',')
      ->check(CLI::IsMember(plan::known_kinds()));
  app.add_flag("--small", o.small,
               "random problems up to a quarter, those of long runs an eighth as long each way");
  app.add_option("--dtypes", o.dtypes, "of bf16, fp16")
      ->delimiter(',')
      ->check(CLI::IsMember({"bf16", "fp16"}));
  app.add_option("--timeout-s", o.timeout_s, "bound of every wait")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--limit-seconds", o.limit_s, "ends the process (default: by the work)")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--drop", o.drop, "test of the test: a rank's part is lost, must be noticed");
  app.add_option("--json", o.json, "appends JSON lines to this file, - for standard output");
  app.add_option("--commit", o.commit, "goes into the records");
}

bool among(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Machine machine_of(int ranks, int communicators) {
  const int devices = std::min(ranks, comm::device_count());
  Machine machine = cuda_machine();
  machine.architecture = architecture_of_device(0);
  machine.cublas = cuda::cublas_version() != 0;
  for (int d = 0; d < devices; ++d)
    machine.multiprocessors = std::min(machine.multiprocessors, cuda::multiprocessors_of(d));
  // Copies between ranks of one device are kernels of the driver's: they find a place only beside
  // shares that leave one, and products that wait for them never end otherwise.
  const int sharers = (ranks + devices - 1) / devices;
  if (sharers > 1) machine.multiprocessors -= kForCopies;
  machine.multiprocessors /= sharers * communicators;
  machine.shared_device = sharers * communicators > 1;
  return machine;
}

WayRange ways_of(const SessionOptions& o, int ranks, int communicators) {
  return {machine_of(ranks, communicators), o.kinds, cuda::has_kernel};
}

cuda::RankShare share_of(const SessionOptions& o, int ranks, int communicators) {
  const bool nccl = named(o.kinds, "nccl") || named(o.kinds, "unfused nccl");
  const Machine machine = machine_of(ranks, communicators);
  return {.multiprocessors = machine.multiprocessors,
          .nccl = nccl,
          .copied = true,
          .architecture = machine.architecture};
}

int run_session(const char* program, CLI::App& app, int argc, char** argv, const SessionOptions& o,
                const std::function<Session(int ranks)>& prepare) {
  // Of captured calls by NCCL. Before any thread; what is set already stays, and is refused later.
  setenv("NCCL_GRAPH_REGISTER", "0", 0);
  return run_program(program, app, argc, argv, [&] {
    // A kernel that is loaded by its first launch, the driver's own for copies among them, waits
    // until the calls that are under way have ended.
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    if (share_devices(o.ranks)) begin_for_shares(argv);
    const int ranks = choose_ranks(o.ranks);
    require(!o.ops.empty() && !o.dtypes.empty(), "--ops, --dtypes: got none, expected some");
    Report report(ranks, o.seed, o.drop, o.json, o.commit);
    const Session session = prepare(ranks);
    const Watchdog watchdog(program, o.limit_s > 0 ? o.limit_s : session.limit_s);
    run_ranks(ranks, [&](Rank& rank) {
      cuda::load_gemm_kernels(architecture_of_device(rank.device));
      session.check(rank, report);
    });
    return report.print();
  });
}

}  // namespace tilelace::gpu_test
