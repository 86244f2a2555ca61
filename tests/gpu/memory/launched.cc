// SPDX-License-Identifier: Apache-2.0
#include "launched.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "comm/cuda/capabilities.h"
#include "comm/launch_env.h"
#include "core/check.h"
#include "core/env.h"

namespace tilelace::comm::test {
namespace {

std::string text_of(const UniqueFd& file) {
  std::string text(static_cast<std::size_t>(lseek(file.get(), 0, SEEK_END)), '\0');
  const ssize_t n = pread(file.get(), text.data(), text.size(), 0);
  text.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  return text;
}

}  // namespace

int run_launched(const std::vector<Check>& checks, const Options& options) {
  const auto launch = read_launch(&env::launch_variable);
  require(launch.has_value(),
          "gpu_memory_check: --model launched, got no RANK, expected torchrun or mpirun to set it");
  const int device = device_of(launch->local_rank);
  const UniqueFd findings(memfd_create("findings", MFD_CLOEXEC));
  Gpu gpu(device);
  const auto group = make_process_group(launch->rank, launch->ranks, launch->directory, kTimeout_s);
  // Only checks that leave the group as it was: there is one.
  for (const Check& check : checks)
    if (check.hidden && !check.spare_sockets && check.least_ranks <= launch->ranks &&
        (options.only.empty() || options.only == check.name)) {
      Member member{*group, gpu, options, "launched", 1, {}, findings.get()};
      run_member(check, member);
    }
  Report report;
  for (const std::string& text : group->all_gather(text_of(findings), kTimeout_s)) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) report.add(from_line(line));
  }
  if (launch->rank == 0) {
    const Capabilities c = query_capabilities(device);
    const Machine machine{device_count(), c.name, std::to_string(c.driver_version), {}, {}};
    report.write_json(options.json, machine, options.commit);
    fmt::print("{} ranks that met in {}\n", launch->ranks, launch->directory);
    report.print();
  }
  return report.exit_code();
}

}  // namespace tilelace::comm::test
