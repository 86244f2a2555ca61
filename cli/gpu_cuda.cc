// SPDX-License-Identifier: Apache-2.0
// A build with CUDA.
#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <fstream>
#include <map>
#include <sstream>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/gemm/gemm_call.h"
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
  return facts;
}

bool gpu_has_kernel(const Plan& plan, DType dtype) {
  return plan.kernel == nullptr || cuda::has_kernel(plan::gemm_of(plan.kernel->way), dtype);
}

struct GpuTimer::Impl {
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  std::map<std::size_t, cudaGraphExec_t> graphs;
};

GpuTimer::GpuTimer(int device) : impl_(std::make_unique<Impl>()) {
  check(cudaSetDevice(device), "the rank's device");
  check(cudaStreamCreateWithFlags(&impl_->stream, cudaStreamNonBlocking), "a stream");
  check(cudaEventCreate(&impl_->begin), "an event");
  check(cudaEventCreate(&impl_->end), "an event");
}

GpuTimer::~GpuTimer() {
  clear();
  cudaEventDestroy(impl_->begin);
  cudaEventDestroy(impl_->end);
  cudaStreamDestroy(impl_->stream);
}

void* GpuTimer::stream() const { return impl_->stream; }

void GpuTimer::capture(std::size_t number, int calls, const std::function<void(int)>& call) {
  cudaGraph_t graph = nullptr;
  check(cudaStreamBeginCapture(impl_->stream, cudaStreamCaptureModeRelaxed), "a capture");
  try {
    for (int i = 0; i < calls; ++i) call(i);
  } catch (...) {
    cudaStreamEndCapture(impl_->stream, &graph);
    cudaGetLastError();
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  check(cudaStreamEndCapture(impl_->stream, &graph), "a capture");
  cudaGraphExec_t made = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&made, graph, 0);
  cudaGraphDestroy(graph);
  check(status, "a graph");
  impl_->graphs[number] = made;
  check(cudaGraphUpload(made, impl_->stream), "a graph");
}

void GpuTimer::replay(std::size_t number, int load, int timed) {
  const cudaGraphExec_t graph = impl_->graphs.at(number);
  for (int i = 0; i < load; ++i) check(cudaGraphLaunch(graph, impl_->stream), "a replay");
  check(cudaEventRecord(impl_->begin, impl_->stream), "an event");
  for (int i = 0; i < timed; ++i) check(cudaGraphLaunch(graph, impl_->stream), "a replay");
  check(cudaEventRecord(impl_->end, impl_->stream), "an event");
}

double GpuTimer::timed_us() const {
  float ms = 0;
  check(cudaEventElapsedTime(&ms, impl_->begin, impl_->end), "the time between two events");
  return static_cast<double>(ms) * 1e3;
}

void GpuTimer::clear() {
  for (const auto& [number, graph] : impl_->graphs) cudaGraphExecDestroy(graph);
  impl_->graphs.clear();
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "a copy");
}

}  // namespace tilelace::cli
