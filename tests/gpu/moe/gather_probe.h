// SPDX-License-Identifier: Apache-2.0
// Kernels that measure ways to load rows that an index selects, with and without a product.
#pragma once
#include <cuda.h>
#include <cuda_bf16.h>

#include <vector>

namespace tilelace::gpu_test {

/// A tile multiplies ProbeWay::weight rows of the weight by ProbeWay::rows indexed rows of x.
struct ProbeParams {
  CUtensorMap weight;  ///< [weight rows, k], boxes of 128 rows
  CUtensorMap rows;    ///< [tokens, k], boxes of 128 rows
  const __nv_bfloat16* x;
  const int* index;   ///< [tiles, rows]
  float* out;         ///< [CTAs, weight, rows], the first tile of each CTA
  long long* clocks;  ///< [CTAs], the clock cycles that each CTA takes for all its tiles
  int k, tiles;
};

struct ProbeWay {
  int weight, rows;
  int loaders;  ///< threads that copy rows, 16 bytes per cp.async; 0: the TMA loads boxes of
                ///< consecutive rows
  bool weights, product;  ///< whether the weight is loaded, and whether products are computed
  cudaError_t (*launch)(const ProbeParams&, int ctas);
};

const std::vector<ProbeWay>& probe_ways();

}  // namespace tilelace::gpu_test
