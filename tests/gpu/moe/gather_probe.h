// SPDX-License-Identifier: Apache-2.0
// How rows that an index chooses may reach a product: kernels that do nothing else.
#pragma once
#include <cuda.h>
#include <cuda_bf16.h>

#include <vector>

namespace tilelace::gpu_test {

/// A tile: `weight` rows of the weight times `rows` rows that the index has, over k columns.
struct ProbeParams {
  CUtensorMap weight;  ///< [weight rows, k], boxes of 128 rows
  CUtensorMap rows;    ///< [tokens, k], boxes of 128 rows
  const __nv_bfloat16* x;
  const int* index;   ///< [tiles, rows]
  float* out;         ///< [CTAs, weight, rows], of each CTA's first tile
  long long* clocks;  ///< of each CTA, for all of its tiles
  int k, tiles;
};

struct ProbeWay {
  int weight, rows;
  int loaders;  ///< threads that copy rows, 16 bytes per cp.async; 0: boxes of rows that lie in
                ///< order
  bool weights, product;  ///< whether the weight's boxes, and the product, are there
  cudaError_t (*launch)(const ProbeParams&, int ctas);
};

const std::vector<ProbeWay>& probe_ways();

}  // namespace tilelace::gpu_test
