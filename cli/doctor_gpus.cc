// SPDX-License-Identifier: Apache-2.0
// GPUs as a build without CUDA sees them: through the driver's library, if there is one.
#include <array>

#include "backend/cuda/measure/gpus.h"
#include "backend/cuda_support.h"
#include "core/check.h"
#include "doctor.h"

namespace tilelace::cli {
namespace {

constexpr int kMulticastSupported = 132;  // CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED

void report_through(Report& report, const Library& cuda) {
  const auto init = cuda.find<int(unsigned)>("cuInit");
  const auto count_of = cuda.find<int(int*)>("cuDeviceGetCount");
  const auto name_at = cuda.find<int(char*, int, int)>("cuDeviceGetName");
  const auto attribute = cuda.find<int(int*, int, int)>("cuDeviceGetAttribute");
  const auto peers = cuda.find<int(int*, int, int)>("cuDeviceCanAccessPeer");
  int count = 0;
  if (init == nullptr || count_of == nullptr || init(0) != 0 || count_of(&count) != 0 || count < 1)
    return report.missing("GPUs", "GPU ranks (the driver's library is there, a device is not)");
  for (int d = 0; d < count; ++d) {
    std::array<char, 256> name{};
    int multicast = 0;
    if (name_at != nullptr) name_at(name.data(), static_cast<int>(name.size()) - 1, d);
    if (attribute != nullptr) attribute(&multicast, kMulticastSupported, d);
    std::string reach;
    for (int p = 0; p < count && peers != nullptr; ++p) {
      int can = 0;
      if (p != d && peers(&can, d, p) == 0 && can != 0) reach += fmt::format(" {}", p);
    }
    report.line(fmt::format("GPU {}", d),
                fmt::format("{}; P2P to:{}; multicast: {} (queried, never created)", name.data(),
                            reach.empty() ? " none" : reach, multicast != 0 ? "yes" : "no"));
  }
}

}  // namespace

void report_devices(Report& report) {
  const Library cuda({"libcuda.so.1"}),
      runtime({"libcudart.so", "libcudart.so.12", "libcudart.so.13"});
  if (cuda) {
    report_through(report, cuda);
  } else {
    report.missing("libcuda", "GPU ranks");
  }
  report.line("CUDA runtime", runtime ? "there, not used by this build" : "none, none needed");
}

}  // namespace tilelace::cli

namespace tilelace::cuda::measure {

GpuRates measure_gpus(const Say& /*say*/) {
  raise(ErrorKind::usage, "--backend cuda: {}", cuda_missing());
}

}  // namespace tilelace::cuda::measure
