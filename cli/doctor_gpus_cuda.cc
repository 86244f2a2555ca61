// SPDX-License-Identifier: Apache-2.0
// GPUs as a build with CUDA sees them.
#include <fmt/ostream.h>

#include <fstream>

#include "backend/cuda/vendor/cublas.h"
#include "comm/cuda/capabilities.h"
#include "doctor.h"
#include "tilelace/error.h"

namespace tilelace::cli {
namespace {

std::string show_cuda(int v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); }

void report_capabilities(Report& report) {
  int count = 0;
  try {
    count = comm::device_count();
  } catch (const Error& e) {
    // The runtime has one word for no driver and an old one: it is told, the meaning in front.
    report.line("GPUs", fmt::format("none: no driver that can be used ({})", e.what()));
    return report.missing("CUDA driver", "GPU ranks");
  }
  report.line("GPUs", fmt::format("{}", count));
  for (int d = 0; d < count; ++d) {
    try {
      comm::Capabilities gpu = comm::query_capabilities(d);
      if (report.for_strangers()) gpu.uuid = "(UUID not shown)";
      report.text(fmt::format("{}", fmt::streamed(gpu)));
    } catch (const Error& e) {
      report.line(fmt::format("GPU {}", d), fmt::format("no report: {}", e.what()));
    }
  }
}

}  // namespace

void report_devices(Report& report) {
  report_capabilities(report);
  report.line("CUDA runtime", fmt::format("{}, built in", show_cuda(CUDART_VERSION)));
  const std::size_t version = cuda::cublas_version();
  if (version == 0)
    return report.missing("cuBLASLt",
                          "--measure of GPUs, the comparison with cuBLAS in benchmarks");
  report.line("cuBLASLt",
              fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100));
}

}  // namespace tilelace::cli
