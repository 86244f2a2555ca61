// SPDX-License-Identifier: Apache-2.0
// The tensor-parallel GEMMs of one transformer layer, sharded as Megatron shards them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"

namespace tilelace::model {

/// Rows or columns [begin, end) of an unsharded matrix.
struct Slice {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] std::int64_t size() const { return end - begin; }
  bool operator==(const Slice&) const = default;
};

/// One GEMM. Weights are [n, k]; ag_gemm splits n over the ranks, gemm_rs and gemm_ar split k.
struct LayerGemm {
  Op op{};
  std::string layer;            ///< qkv, attn_out, gate_up, up or down
  int tp = 1;                   ///< number of ranks
  std::vector<std::int64_t> n;  ///< this rank's rows of each weight (q, k, v; or gate, up)
  std::int64_t k = 0;           ///< this rank's k
  Activation activation = Activation::none;
  bool bias = false;
  bool gated = false;
  std::vector<std::int64_t> full_n;  ///< unsharded rows of each weight
  std::int64_t full_k = 0;

  bool operator==(const LayerGemm&) const = default;
};

/// The GEMMs of a layer, in order: qkv and gate_up (or up) as ag_gemm, attn_out and down as
/// gemm_rs; then attn_out and down again, as gemm_ar, for inference. Errors: usage, naming the
/// possible group sizes, if tp does not split heads, KV heads and MLP features evenly. (If there
/// are fewer KV heads than ranks, KV heads are replicated, and their number must divide tp.)
std::vector<LayerGemm> layer_gemms(const ModelConfig& config, int tp);

/// The group sizes from 2 to 64 that are possible for layer_gemms().
std::vector<int> group_sizes(const ModelConfig& config);

/// Rows of weight `index` that a rank holds. Neighbouring ranks share rows of replicated KV heads.
Slice row_slice(const LayerGemm& gemm, std::size_t index, int rank);
/// Columns (k) of every weight that a rank holds.
Slice k_slice(const LayerGemm& gemm, int rank);

}  // namespace tilelace::model
