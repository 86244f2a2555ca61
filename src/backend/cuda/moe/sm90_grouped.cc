// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/moe/sm90_grouped.h"

#include <array>
#include <limits>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/element_types.h"
#include "backend/cuda/gemm/tensor_map.h"
#include "backend/cuda/kernels/sm90/grouped_kernels.h"
#include "backend/cuda/moe/moe_kernels.h"
#include "backend/cuda/moe/tile_words.h"
#include "core/check.h"

namespace tilelace::cuda {
namespace {

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

GroupedParams params_of(const GroupedGemm& g, const plan::GroupedShape& shape,
                        std::uint32_t* word) {
  GroupedParams p{};
  const plan::GroupedProduct product = product_of(g);
  p.n = static_cast<int>(product.out_n());
  fill_weight(p, g, shape.weight_rows);
  for (int i = 0; i < row_maps(shape); ++i)
    p.rows[i] = rows_map({g.x, g.rows, g.k}, g.dtype, 8 * (i + 1));
  for (int i = 0; i < result_maps(shape); ++i)
    p.results[i] = rows_map({g.out, g.rows, p.n}, g.dtype, 8 * (i + 1));
  p.tiles = plan::grouped_tiles(product, shape);
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

}  // namespace

void launch_sm90_grouped(const GroupedGemm& g, const plan::GroupedShape& shape,
                         cudaStream_t stream) {
  const GroupedEntry entry = grouped_entry(g.dtype, g.gating != Gating::one, shape);
  if (entry.kernel == nullptr)
    raise(ErrorKind::system, "grouped_gemm: tiles {}: this build has no kernel of this shape",
          shape.name);
  const GroupedParams params = params_of(g, shape, tile_word(stream));
  std::array<cudaLaunchAttribute, 2> attributes{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = static_cast<unsigned>(shape.cluster);
  attributes[1].val.clusterDim.y = 1;
  attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim =
      dim3(static_cast<unsigned>(multiprocessors_here() / shape.cluster * shape.cluster));
  config.blockDim = dim3(kGroupedThreads);
  config.dynamicSmemBytes = static_cast<std::size_t>(entry.shared_bytes);
  config.stream = stream;
  config.attrs = attributes.data();
  config.numAttrs = shape.cluster > 1 ? 2 : 1;
  void* arguments[] = {const_cast<GroupedParams*>(&params)};
  load(entry);
  check(cudaLaunchKernelExC(&config, entry.kernel, arguments), "launching grouped_gemm");
}

void load_sm90_grouped() {
  const cudaError_t status = for_each_gpu_dtype([](DType dtype) {
    for (const bool gated : {false, true})
      for (const plan::GroupedShape& shape : plan::kSm90GroupedShapes)
        load(grouped_entry(dtype, gated, shape));
    return cudaSuccess;
  });
  check(status, "loading grouped_gemm");
}

}  // namespace tilelace::cuda
