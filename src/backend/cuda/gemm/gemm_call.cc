// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm/gemm_call.h"

#include <algorithm>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/current_device.h"
#include "backend/cuda/gemm/architecture_kernels.h"
#include "backend/cuda/gemm/gemm_launch.h"
#include "core/check.h"

namespace tilelace::cuda {
namespace {

constexpr std::int64_t kWaitNs = 30'000'000'000;

}  // namespace

GemmWorkspace::GemmWorkspace(int architecture) : seen_(current_device(), sizeof(comm::AbortWord)) {
  const int ctas = multiprocessors_of(current_device());
  int floats = 0;
  // Groups that take turns may share in two rounds.
  for (const GemmKernel& k : kernels_of(architecture).kernels())
    floats = std::max(floats, (k.tile.pingpong ? 2 : 1) * k.partial_floats);
  partial_bytes_ = std::size_t(ctas) * std::size_t(floats) * sizeof(float);
  const std::size_t flags = std::size_t(ctas) * kMathGroups * sizeof(comm::Flag);
  state_bytes_ = sizeof(comm::AbortWord) + 2 * flags;  // and as many counts
  check(cudaMalloc(&memory_, partial_bytes_ + state_bytes_), "memory for partials of the GEMM");
  auto* at = static_cast<std::byte*>(memory_);
  scratch_.partials = reinterpret_cast<float*>(at);
  scratch_.abort = reinterpret_cast<comm::AbortWord*>(at + partial_bytes_);
  scratch_.flags = reinterpret_cast<comm::Flag*>(at + partial_bytes_ + sizeof(comm::AbortWord));
  scratch_.launches = scratch_.flags + std::size_t(ctas) * kMathGroups;
  scratch_.wait_ns = kWaitNs;
  scratch_.ctas = ctas;
  clear();
}

GemmWorkspace::~GemmWorkspace() { cudaFree(memory_); }

void GemmWorkspace::clear() {
  check(cudaMemset(scratch_.abort, 0, state_bytes_), "clearing the flags of the GEMM");
  check(cudaDeviceSynchronize(), "clearing the flags of the GEMM");
}

void GemmWorkspace::look(cudaStream_t stream) {
  check(cudaMemcpyAsync(seen_.host(), scratch_.abort, sizeof(comm::AbortWord),
                        cudaMemcpyDeviceToHost, stream),
        "reading a flag");
}

bool GemmWorkspace::failed() {
  if (std::exchange(*reinterpret_cast<comm::AbortWord*>(seen_.host()), 0) == 0) return false;
  clear();
  return true;
}

bool has_kernel(const plan::GemmPlan& plan, DType dtype) {
  const GemmKernel* const k = kernels_of(plan.architecture).find(plan.tile.name, dtype);
  return k != nullptr && k->of(GemmUse::alone) != nullptr;
}

const GemmKernel& kernel_of(const plan::GemmPlan& plan, DType dtype) {
  const GemmKernel* const k = kernels_of(plan.architecture).find(plan.tile.name, dtype);
  require(k != nullptr && k->of(GemmUse::alone) != nullptr,
          "gemm: this build has no kernel for tile {} in {}", plan.tile.name, name_of(dtype));
  return *k;
}

void load_gemm_kernels(int architecture) {
  require_kernels(architecture);
  for (const GemmKernel& k : kernels_of(architecture).kernels())
    for (const void* function : k.functions) {
      if (function == nullptr) continue;
      check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 k.shared_bytes),
            "loading a GEMM");
    }
}

GemmCall::GemmCall(const plan::GemmPlan& plan, const plan::GemmProblem& p, const GemmTensors& t,
                   const GemmScratch& scratch)
    : kernel_(&kernel_of(plan, p.dtype)),
      function_(kernel_->of(p.gated ? GemmUse::gated : GemmUse::alone)),
      params_{},
      early_(plan.early_weights) {
  require(function_ != nullptr, "gemm: tile {} has no kernel for gate and up at once",
          plan.tile.name);
  fill_operands(params_, *kernel_, p, t, scratch);
  fill_tokens(params_, *kernel_, p, t.a);
  if (p.gated) fill_up(params_.up, *kernel_, p, t);
  fill_outputs(params_.out, params_.out_remainder, *kernel_, {t.out, p.m, p.out_n()}, p.dtype,
               p.gated);
  params_.work = plan::work_of(plan, p);
  grid_ = fill_grid(params_, params_.work, *kernel_, plan);
}

void GemmCall::launch(cudaStream_t stream) const {
  launch_gemm(*kernel_, function_, static_cast<const GemmParams*>(&params_), grid_, stream, early_);
}

}  // namespace tilelace::cuda
