// SPDX-License-Identifier: Apache-2.0
// A build without CUDA.
#include "gpu.h"

#include "backend/cuda_support.h"
#include "core/check.h"

namespace tilelace::cli {
namespace {

[[noreturn]] void no_cuda() {
  raise(ErrorKind::usage, "--backend: got cuda, expected cpu: {}", cuda_missing());
}

}  // namespace

GpuFacts gpu_facts() { no_cuda(); }

bool gpu_has_kernel(const Plan& /*plan*/, DType /*dtype*/) { no_cuda(); }

struct GpuTimer::Impl {};
GpuTimer::GpuTimer(int /*device*/) { no_cuda(); }
GpuTimer::~GpuTimer() = default;
void* GpuTimer::stream() const { no_cuda(); }
void GpuTimer::capture(std::size_t /*number*/, int /*calls*/,
                       const std::function<void(int)>& /*call*/) {
  no_cuda();
}
void GpuTimer::replay(std::size_t /*number*/, int /*load*/, int /*timed*/) { no_cuda(); }
double GpuTimer::timed_us() const { no_cuda(); }
void GpuTimer::clear() {}
void copy_bytes(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) { no_cuda(); }

}  // namespace tilelace::cli
