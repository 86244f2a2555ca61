// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm.h"

#include <algorithm>
#include <array>
#include <vector>

#include "backend/cuda/cuda_check.h"
#include "backend/cuda/neighbours.h"
#include "backend/cuda/tensor_map.h"
#include "core/check.h"

namespace tilelace::cuda {
namespace {

constexpr int kMathGroups = 2;
constexpr std::int64_t kWaitNs = 30'000'000'000;

const std::vector<const GemmKernel*>& all_kernels() {
  static const std::vector<const GemmKernel*> all = [] {
    std::vector<const GemmKernel*> found;
    for (const auto list :
         {gemm_cooperative(), gemm_pingpong(), gemm_tall(), gemm_narrow(), gemm_swapped()})
      for (const GemmKernel& k : list) found.push_back(&k);
    return found;
  }();
  return all;
}

cudaLaunchConfig_t launch_config(const GemmKernel& k, int ctas, cudaStream_t stream,
                                 std::array<cudaLaunchAttribute, 2>& attributes, bool early) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(ctas));
  config.blockDim = dim3(static_cast<unsigned>(k.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(k.shared_bytes);
  config.stream = stream;
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = static_cast<unsigned>(k.tile.cluster());
  attributes[0].val.clusterDim.y = 1;
  attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  config.attrs = attributes.data();
  config.numAttrs = early ? 2 : 1;
  return config;
}

int multiprocessors() {
  int device = 0;
  int count = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
        "multiprocessor count");
  return count;
}

void require_aligned(const void* p, const char* name) {
  require(reinterpret_cast<std::uintptr_t>(p) % 16 == 0,
          "gemm: {} at {}, expected a multiple of 16 bytes", name, p);
}

}  // namespace

GemmWorkspace::GemmWorkspace() {
  const int ctas = multiprocessors();
  int floats = 0;
  for (const GemmKernel* k : all_kernels()) floats = std::max(floats, k->partial_floats);
  const std::size_t partials = std::size_t(ctas) * std::size_t(floats) * sizeof(float);
  const std::size_t flags = std::size_t(ctas) * kMathGroups * sizeof(comm::Flag);
  const std::size_t launches = std::size_t(ctas) * sizeof(comm::Flag);
  state_bytes_ = sizeof(comm::AbortWord) + flags + launches;
  check(cudaMalloc(&memory_, partials + state_bytes_), "memory for partials of the GEMM");
  auto* at = static_cast<std::byte*>(memory_);
  scratch_.partials = reinterpret_cast<float*>(at);
  scratch_.abort = reinterpret_cast<comm::AbortWord*>(at + partials);
  scratch_.flags = reinterpret_cast<comm::Flag*>(at + partials + sizeof(comm::AbortWord));
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

bool GemmWorkspace::failed() {
  comm::AbortWord word = 0;
  check(cudaDeviceSynchronize(), "a GEMM");
  check(cudaMemcpy(&word, scratch_.abort, sizeof word, cudaMemcpyDeviceToHost), "reading a flag");
  if (word == 0) return false;
  clear();
  return true;
}

const GemmKernel& kernel_of(const plan::GemmPlan& plan, DType dtype) {
  for (const GemmKernel* k : all_kernels())
    if (k->tile.name == plan.tile.name && k->dtype == dtype) return *k;
  raise(ErrorKind::usage, "gemm: tile {} of {}, expected a compiled one", plan.tile.name,
        name_of(dtype));
}

void load_gemm_kernels() {
  for (const GemmKernel* k : all_kernels())
    check(cudaFuncSetAttribute(reinterpret_cast<const void*>(k->function),
                               cudaFuncAttributeMaxDynamicSharedMemorySize, k->shared_bytes),
          "loading a GEMM");
}

GemmCall::GemmCall(const plan::GemmPlan& plan, const plan::GemmProblem& p, const GemmTensors& t,
                   const GemmScratch& scratch)
    : kernel_(&kernel_of(plan, p.dtype)), params_{}, ctas_(0), early_(plan.early_weights) {
  require_aligned(t.a, "a");
  require_aligned(t.weight, "weight");
  require_aligned(t.bias, "bias");
  require_aligned(t.out, "out");
  const plan::GemmTile& tile = kernel_->tile;
  const TensorMapSource a{t.a, p.m, p.k};
  const TensorMapSource w{t.weight, p.n, p.k};
  params_.rows = rows_map(tile.swapped ? w : a, p.dtype, kernel_->row_slice);
  params_.cols = rows_map(tile.swapped ? a : w, p.dtype, kernel_->col_slice);
  const TensorMapSource out{t.out, p.m, p.n};
  const int rest = tile.width % 64;
  params_.out = rows_map(out, p.dtype, 64);
  params_.out_rest = tile.swapped ? rows_map(out, p.dtype, rest == 0 ? 64 : rest)
                                  : planes_map(out, p.dtype, rest == 0 ? 1 : rest / 8);
  params_.work = plan::work_of(plan, p);
  params_.scratch = scratch;
  params_.bias = t.bias;
  params_.n = static_cast<int>(p.n);
  params_.activation = t.activation;
  const int workers =
      plan.split_tiles > 0 ? plan.workers : std::min(plan.workers, params_.work.order.tiles());
  params_.work.workers = workers;
  // Only whole grids: the numbers are a permutation of as many clusters as the device holds. And
  // only whole tiles: sharing k-steps relies on the order of dispatch.
  if (plan.by_neighbours && plan.split_tiles == 0 && tile.cluster() == 2) {
    const auto places = neighbour_places();
    if (places.size() == static_cast<std::size_t>(workers)) params_.places = places.data();
  }
  ctas_ = workers * tile.cluster();
  require(plan.split_tiles == 0 || ctas_ <= scratch.ctas, "gemm: {} CTAs, expected at most {}",
          ctas_, scratch.ctas);
}

void GemmCall::launch(cudaStream_t stream) const {
  std::array<cudaLaunchAttribute, 2> attributes{};
  const auto config = launch_config(*kernel_, ctas_, stream, attributes, early_);
  void* arguments[] = {const_cast<GemmParams*>(&params_)};
  check(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel_->function), arguments),
        "launching a GEMM");
}

}  // namespace tilelace::cuda
