// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gemm/gemm_launch.h"

#include <array>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/trace.h"
#include "backend/cuda/gemm/neighbours.h"

namespace tilelace::cuda {

namespace {

/// Rows of gate, and of up, that are loaded at once: half of a tile's columns, or a block.
int gated_rows(const GemmKernel& kernel) {
  return kernel.tile.swapped ? 64 : kernel.tile.width / 2;
}

}  // namespace

void require_aligned(const void* p, const char* name) {
  require(reinterpret_cast<std::uintptr_t>(p) % 16 == 0,
          "gemm: {}: got address {}, expected a multiple of 16 bytes", name, p);
}

void fill_operands(GemmOperands& common, const GemmKernel& kernel, const plan::GemmProblem& p,
                   const GemmTensors& t, const GemmScratch& scratch) {
  require_aligned(t.a, "a");
  require_aligned(t.weight, "weight");
  require_aligned(t.bias, "bias");
  require_aligned(t.out, "out");
  const bool swapped = kernel.tile.swapped;
  const int of_tokens = swapped ? kernel.col_slice : kernel.row_slice;
  const int of_weight = swapped ? kernel.row_slice : kernel.col_slice;
  const CUtensorMap tokens = rows_map({t.a, p.m, p.k}, p.dtype, of_tokens);
  const CUtensorMap weight =
      rows_map({t.weight, p.out_n(), p.k}, p.dtype, p.gated ? gated_rows(kernel) : of_weight);
  common.rows = swapped ? weight : tokens;
  common.cols = swapped ? tokens : weight;
  common.scratch = scratch;
  common.bias = t.bias;
  common.n = static_cast<int>(p.out_n());
  common.activation = t.activation;
  common.weights_wait = t.weights_wait;
  TILELACE_TRACE_TO(common, "product");
}

void fill_up(UpWeight& up, const GemmKernel& kernel, const plan::GemmProblem& p,
             const GemmTensors& t) {
  require_aligned(t.up, "up");
  require_aligned(t.up_bias, "up bias");
  up.map = rows_map({t.up, p.out_n(), p.k}, p.dtype, gated_rows(kernel));
  up.bias = t.up_bias;
}

CUtensorMap tail_map(const GemmKernel& kernel, TensorMapSource tokens, std::int64_t of_tiles,
                     DType dtype) {
  const int partial = kernel.tokens.partial(of_tiles);
  return partial > 0 ? rows_map(tokens, dtype, partial) : CUtensorMap{};
}

void fill_tokens(GemmParams& params, const GemmKernel& kernel, const plan::GemmProblem& p,
                 const void* a) {
  params.tail = tail_map(kernel, {a, p.m, p.k}, p.m, p.dtype);
  params.tokens = static_cast<int>(p.m);
}

void fill_outputs(CUtensorMap& out, CUtensorMap& remainder, const GemmKernel& kernel,
                  TensorMapSource to, DType dtype, bool gated) {
  const int cols = gated && !kernel.tile.swapped ? kernel.tile.width / 2 : kernel.tile.width;
  const int width = cols % 64;
  out = rows_map(to, dtype, 64);
  remainder = kernel.tile.swapped ? rows_map(to, dtype, width == 0 ? 64 : width)
                                  : strip_map(to, dtype, width == 0 ? 8 : width);
}

const std::uint16_t* places_of(const plan::GemmPlan& plan, const GemmKernel& kernel, int workers) {
  // Only whole grids: the numbers are a permutation of as many clusters as the device holds. And
  // only whole tiles: sharing k-steps relies on the order of dispatch.
  if (!plan.by_neighbours || plan.split_tiles != 0 || kernel.tile.cluster() != 2) return nullptr;
  const auto places = neighbour_places();
  return places.size() == static_cast<std::size_t>(workers) ? places.data() : nullptr;
}

void launch_gemm(const GemmKernel& kernel, const void* function, const void* params, GemmGrid grid,
                 cudaStream_t stream, bool early) {
  std::array<cudaLaunchAttribute, 2> attributes{};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim.x = static_cast<unsigned>(grid.cluster);
  attributes[0].val.clusterDim.y = 1;
  attributes[0].val.clusterDim.z = 1;
  attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[1].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.ctas));
  config.blockDim = dim3(static_cast<unsigned>(kernel.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(kernel.shared_bytes);
  config.stream = stream;
  config.attrs = attributes.data();
  config.numAttrs = early ? 2 : 1;
  void* arguments[] = {const_cast<void*>(params)};
  check(cudaLaunchKernelExC(&config, function, arguments), "launching a GEMM");
}

}  // namespace tilelace::cuda
