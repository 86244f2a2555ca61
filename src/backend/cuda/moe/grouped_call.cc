// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <limits>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/element_types.h"
#include "backend/cuda/gemm/tensor_map.h"
#include "backend/cuda/moe/grouped_kernels.h"
#include "backend/cuda/moe/moe_gpu.h"
#include "backend/cuda/moe/moe_kernels.h"
#include "backend/cuda/moe/tile_words.h"
#include "core/check.h"
#include "plan/base/problem.h"

namespace tilelace::cuda {
namespace {

constexpr std::int64_t kMostInt = std::numeric_limits<int>::max();

void require_address(const void* p, const char* name, bool null_is_right = false) {
  require(p != nullptr || null_is_right,
          "grouped_gemm: {}: got null, expected memory of the device", name);
  require(reinterpret_cast<std::uintptr_t>(p) % 16 == 0,
          "grouped_gemm: {}: got address {}, expected a multiple of 16 bytes", name, p);
}

void check_call(const GroupedGemm& g) {
  const bool gated = g.gating != Gating::one;
  require(g.experts >= 1 && g.experts <= kMostMoeExperts,
          "grouped_gemm: experts: got {}, expected 1 to {}", g.experts, kMostMoeExperts);
  const auto require_width = [](const char* name, std::int64_t width, std::int64_t grain) {
    require(width > 0 && width % grain == 0, "grouped_gemm: {}: got {}, expected a multiple of {}",
            name, width, grain);
  };
  require_width("n", g.n, plan::grain_of(g.dtype, gated));
  require_width("k", g.k, plan::grain_of(g.dtype));
  require(g.rows >= 0 && g.rows <= kMostInt && g.n <= kMostInt / g.experts && g.k <= kMostInt,
          "grouped_gemm: got rows {}, n {}, k {}, expected each of them, and experts x n, to be at "
          "most 2^31 - 1",
          g.rows, g.n, g.k);
  require(g.activation != Activation::swiglu && (!gated || g.activation == Activation::none),
          "grouped_gemm: activation: got {}, expected {}", name_of(g.activation),
          gated ? "none: the gating has its own activation" : "any but swiglu, which is a gating");
  if (g.rows == 0) return;
  require_address(g.x, "x");
  require_address(g.weight, "weight");
  require_address(g.out, "out");
  require_address(g.bias, "bias", true);
  require(g.begins != nullptr, "grouped_gemm: begins: got null, expected memory of the device");
}

void load(const GroupedEntry& entry) { load_with_shared(entry.kernel, entry.shared_bytes); }

/// The weight and, of gates and ups, what each of them is in it.
void fill_weight(GroupedParams& p, const GroupedGemm& g, int rows) {
  const int box = g.gating == Gating::one ? rows : rows / 2;
  const std::int64_t out_n = p.n;
  const auto* const at = static_cast<const std::byte*>(g.weight);
  const auto bytes = static_cast<std::int64_t>(size_of(g.dtype));
  p.bias_columns = static_cast<int>(g.n);
  p.bias_step = 1;
  if (g.gating == Gating::one) {
    p.weight_rows = static_cast<int>(g.n);
    p.weight = rows_map({g.weight, g.experts * g.n, g.k}, g.dtype, box);
    return;
  }
  if (g.gating == Gating::swiglu) {
    p.weight_rows = static_cast<int>(g.n);
    p.bias_up = static_cast<int>(out_n);
    p.weight = rows_map({at, g.experts * g.n, g.k}, g.dtype, box);
    p.up = rows_map({at + out_n * g.k * bytes, g.experts * g.n - out_n, g.k}, g.dtype, box);
    p.gate = {1, std::numeric_limits<float>::infinity(), 0};
    return;
  }
  p.weight_rows = static_cast<int>(out_n);
  p.bias_step = 2;
  p.bias_up = 1;
  p.weight = rows_map({at, g.experts * out_n, g.k, 2 * g.k}, g.dtype, box);
  p.up = rows_map({at + g.k * bytes, g.experts * out_n, g.k, 2 * g.k}, g.dtype, box);
  p.gate = {1.702F, 7, 1};
}

plan::GroupedProduct product_of(const GroupedGemm& g) {
  return {g.rows, g.n, g.k, g.experts, g.gating != Gating::one, g.dtype};
}

GroupedParams params_of(const GroupedGemm& g, GroupedTiling tiling, std::uint32_t* word) {
  GroupedParams p{};
  p.n = static_cast<int>(product_of(g).out_n());
  const plan::GroupedShape& shape = plan::shape_of(tiling);
  fill_weight(p, g, shape.weight_rows);
  for (int i = 0; i < plan::row_maps(shape); ++i)
    p.rows[i] = rows_map({g.x, g.rows, g.k}, g.dtype, 8 * (i + 1));
  for (int i = 0; i < plan::result_maps(shape); ++i)
    p.results[i] = rows_map({g.out, g.rows, p.n}, g.dtype, 8 * (i + 1));
  p.tiles = plan::grouped_tiles(product_of(g), tiling);
  p.begins = g.begins;
  p.sources = g.sources;
  p.scale = g.scale;
  p.bias = g.bias;
  p.out = g.out;
  p.word = word;
  p.experts = g.experts;
  p.steps = static_cast<int>((g.k + 63) / 64);
  p.activation = g.activation;
  return p;
}

GroupedEntry entry_of(const GroupedGemm& g, GroupedTiling tiling) {
  const GroupedEntry entry = grouped_entry(g.dtype, g.gating != Gating::one, tiling);
  require(entry.kernel != nullptr, "grouped_gemm: dtype: got {}, expected {} on GPUs",
          name_of(g.dtype), names_of_gpu_dtypes());
  return entry;
}

}  // namespace

GroupedTiling grouped_tiling(const GroupedGemm& g) { return plan::grouped_tiling(product_of(g)); }

void grouped_gemm(const GroupedGemm& g, GroupedTiling tiling, cudaStream_t stream) {
  const GroupedEntry entry = entry_of(g, tiling);
  check_call(g);
  if (g.rows == 0) return;
  const GroupedParams params = params_of(g, tiling, tile_word(stream));
  const int cluster = plan::shape_of(tiling).cluster;
  std::array<cudaLaunchAttribute, 2> attributes{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = static_cast<unsigned>(cluster);
  attributes[1].val.clusterDim.y = 1;
  attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(multiprocessors_here() / cluster * cluster));
  config.blockDim = dim3(kGroupedThreads);
  config.dynamicSmemBytes = static_cast<std::size_t>(entry.shared_bytes);
  config.stream = stream;
  config.attrs = attributes.data();
  config.numAttrs = cluster > 1 ? 2 : 1;
  void* arguments[] = {const_cast<GroupedParams*>(&params)};
  load(entry);
  check(cudaLaunchKernelExC(&config, entry.kernel, arguments), "launching grouped_gemm");
}

void load_grouped_gemm() {
  const cudaError_t status = for_each_gpu_dtype([](DType dtype) {
    for (const bool gated : {false, true})
      for (const auto tiling : kGroupedTilings) load(grouped_entry(dtype, gated, tiling));
    return cudaSuccess;
  });
  check(status, "loading grouped_gemm");
}

void grouped_gemm(const GroupedGemm& g, cudaStream_t stream) {
  grouped_gemm(g, grouped_tiling(g), stream);
}

}  // namespace tilelace::cuda
