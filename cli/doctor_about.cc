// SPDX-License-Identifier: Apache-2.0
// What the doctor says of this build, the system and its environment.
#include <gnu/libc-version.h>
#include <sys/utsname.h>

#include <fstream>
#include <string>
#include <string_view>

#include "commit.h"
#include "core/env.h"
#include "doctor.h"
#include "tilelace/version.h"

namespace tilelace::cli {
namespace {

/// "Debian GNU/Linux 12 (bookworm)", as the system names itself.
std::string distribution() {
  std::ifstream in("/etc/os-release");
  constexpr std::string_view kKey = "PRETTY_NAME=";
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(kKey)) continue;
    std::string name = line.substr(kKey.size());
    if (name.size() > 1 && name.front() == '"' && name.back() == '"')
      name = name.substr(1, name.size() - 2);
    return name;
  }
  return "unknown system";
}

}  // namespace

void report_build(Report& report) {
  report.line("tilelace", fmt::format("{}, commit {}", TILELACE_VERSION_STRING, built_commit()));
  report.line("build", TILELACE_BUILD);
}

void report_host(Report& report) {
  utsname kernel{};
  uname(&kernel);
  report.line("system", fmt::format("{}, {} {} {}, glibc {}", distribution(), kernel.sysname,
                                    kernel.release, kernel.machine, gnu_get_libc_version()));
}

void report_environment(Report& report) {
  const auto found = env::variables({"TILELACE_", "NCCL_", "CUDA_", "TORCH_", "PYTORCH_", "OMP_"});
  if (found.empty()) report.line("environment", "nothing set that matters");
  for (const auto& [name, value] : found) report.variable(name, value);
}

}  // namespace tilelace::cli
