// SPDX-License-Identifier: Apache-2.0
// What the GPU checks share: ranks as threads with a stream each, verdicts, JSON lines.
#pragma once
#include <fmt/core.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backend/cuda/measure/ranks.h"
#include "comm/cuda/device_memory.h"

namespace tilelace::gpu_test {

using Json = nlohmann::ordered_json;

using cuda::measure::kMeetSeconds;
using cuda::measure::now_s;
using cuda::measure::Rank;
using cuda::measure::run_ranks;

/// `asked`, or the number of GPUs for 0. Errors: usage (no GPU, not 2 to 16), system (no driver).
int choose_ranks(int asked);
/// Whether this number of ranks must share devices.
bool share_devices(int ranks);

/// Writes the lines of --json FILE ("-": standard output, "": none).
class JsonLines {
 public:
  /// `append`: keeps the lines of an existing file. Error: usage.
  JsonLines(const std::string& path, bool append);
  void write(const Json& line);

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

std::string utc_now();
std::string device_name();
/// The version of the driver's kernel module, or the driver's CUDA version if that is unknown.
std::string driver_version();

}  // namespace tilelace::gpu_test
