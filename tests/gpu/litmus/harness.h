// SPDX-License-Identifier: Apache-2.0
// What the GPU checks share: ranks as threads, a stream each, JSON lines, exit codes.
#pragma once
#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "comm/cuda/device_memory.h"
#include "comm/group.h"

namespace tilelace::gpu_test {

using Json = nlohmann::ordered_json;

/// The bound of meetings of the ranks' host threads.
constexpr double kMeetSeconds = 40;

/// A rank's thread, its device current.
struct Rank {
  int rank = 0;
  int ranks = 1;
  int device = 0;
  comm::Group* group = nullptr;
  cudaStream_t stream = nullptr;

  /// A barrier of all ranks' hosts.
  void meet() const { group->all_gather({}, kMeetSeconds); }
  /// Everyone's numbers, by rank.
  [[nodiscard]] std::vector<std::vector<double>> gather(const std::vector<double>& mine) const;
  [[nodiscard]] double max(double mine) const;
};

/// Runs body on a thread for every rank, rank r on device r (or r modulo the devices there are). A
/// rank that throws ends the group; the first error that is not an echo of another is thrown here.
void run_ranks(int ranks, const std::function<void(Rank&)>& body);

/// How many ranks: `asked`, or all devices. Errors: usage (fewer than 2), system (no device).
int choose_ranks(int asked);

/// Own mistakes of a result: wrong words, a missed bar.
struct Verdict {
  bool good = true;
  std::string text;
};

/// Lines of --json FILE ("-": standard output, "": none); appends where told so.
class JsonLines {
 public:
  /// Error: usage.
  JsonLines(const std::string& path, bool append);
  void write(const Json& line);

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

std::string utc_now();
std::string device_name();
/// The driver's version as the kernel module says it, else CUDA's version of it.
std::string driver_version();

/// Seconds of the monotonic clock, the same in every process.
double now_s();

}  // namespace tilelace::gpu_test
