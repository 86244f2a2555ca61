// SPDX-License-Identifier: Apache-2.0
// A build with CUDA.
#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <fstream>
#include <sstream>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/gemm/gemm_call.h"
#include "backend/cuda/vendor/cublas.h"
#include "comm/cuda/capabilities.h"
#include "core/architecture.h"
#include "gpu.h"
#include "plan/gpu/kernel_choice.h"

namespace tilelace::cli {
namespace {

using cuda::check;

/// The first word of the kernel module's line that looks like a version.
std::string driver_version(int cuda) {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  std::getline(file, line);
  std::istringstream words(line);
  for (std::string word; words >> word;)
    if (word.find('.') != std::string::npos &&
        word.find_first_not_of("0123456789.") == std::string::npos)
      return word;
  return fmt::format("CUDA {}.{}", cuda / 1000, cuda % 1000 / 10);
}

}  // namespace

GpuFacts gpu_facts() {
  GpuFacts facts;
  facts.count = comm::device_count();
  if (facts.count == 0) return facts;
  const comm::Capabilities c = comm::query_capabilities(0);
  facts.name = c.name;
  facts.driver = driver_version(c.driver_version);
  facts.multiprocessors = c.sm_count;
  // Of another one ranks say that there are no kernels.
  facts.architecture = architecture_of(c.compute_major, c.compute_minor).value_or(0);
  facts.memory_bytes_per_s = c.memory_bytes_per_s;
  facts.memory_bytes = static_cast<std::int64_t>(c.memory_bytes);
  facts.cublas = cuda::cublas_version() != 0;
  return facts;
}

bool gpu_has_kernel(const Plan& plan, DType dtype) {
  return plan.kernel == nullptr || cuda::has_kernel(plan::gemm_of(plan.kernel->way), dtype);
}

void take_gpu(int device) { check(cudaSetDevice(device), "selecting the rank's device"); }

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "a copy");
}

}  // namespace tilelace::cli
