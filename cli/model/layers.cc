// SPDX-License-Identifier: Apache-2.0
#include "model/layers.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/check.h"

namespace tilelace::model {
namespace {

constexpr int kMaxListedRanks = 64;

/// What keeps `tp` ranks from sharing this model evenly; empty when nothing does.
std::string obstacle(const ModelConfig& c, int tp) {
  if (c.heads % tp != 0) return fmt::format("{} heads", c.heads);
  if (c.kv_heads % tp != 0 && tp % c.kv_heads != 0) return fmt::format("{} KV heads", c.kv_heads);
  if (c.ffn % tp != 0) return fmt::format("{} MLP features", c.ffn);
  return {};
}

/// The extent of one rank where `copies` neighbours hold the same part.
Slice part(std::int64_t local, std::int64_t full, int tp, int rank) {
  const std::int64_t copies = local * tp / full;
  const std::int64_t begin = rank / copies * local;
  return {begin, begin + local};
}

void check_rank(const LayerGemm& gemm, int rank) {
  require(rank >= 0 && rank < gemm.tp, "layers: rank, got {}, expected 0 to {}", rank, gemm.tp - 1);
}

LayerGemm row_parallel(Op op, const char* layer, const ModelConfig& c, int tp, std::int64_t full_k,
                       bool bias) {
  LayerGemm g;
  g.op = op;
  g.layer = layer;
  g.tp = tp;
  g.n = g.full_n = {c.hidden};
  g.k = full_k / tp;
  g.full_k = full_k;
  g.bias = bias;
  return g;
}

LayerGemm qkv(const ModelConfig& c, int tp) {
  LayerGemm g;
  const std::int64_t q = std::int64_t{c.heads} * c.head_dim;
  const std::int64_t kv = std::int64_t{c.kv_heads} * c.head_dim;
  const std::int64_t kv_local = std::int64_t{std::max(1, c.kv_heads / tp)} * c.head_dim;
  g.layer = "qkv";
  g.tp = tp;
  g.n = {q / tp, kv_local, kv_local};
  g.full_n = {q, kv, kv};
  g.k = g.full_k = c.hidden;
  g.bias = c.qkv_bias;
  return g;
}

LayerGemm up(const ModelConfig& c, int tp) {
  LayerGemm g;
  g.layer = c.gated ? "gate_up" : "up";
  g.tp = tp;
  g.n.assign(c.gated ? 2 : 1, c.ffn / tp);
  g.full_n.assign(c.gated ? 2 : 1, c.ffn);
  g.k = g.full_k = c.hidden;
  g.activation = c.gated ? Activation::swiglu : c.activation;
  g.bias = c.mlp_bias;
  g.gated = c.gated;
  return g;
}

}  // namespace

std::vector<int> group_sizes(const ModelConfig& config) {
  std::vector<int> sizes;
  for (int tp = 2; tp <= kMaxListedRanks; ++tp)
    if (obstacle(config, tp).empty()) sizes.push_back(tp);
  return sizes;
}

std::vector<LayerGemm> layer_gemms(const ModelConfig& config, int tp) {
  require(tp >= 1, "--tp: got {}, expected at least 1", tp);
  if (const std::string why = obstacle(config, tp); !why.empty()) {
    std::vector<int> sizes{1};
    for (const int s : group_sizes(config)) sizes.push_back(s);
    raise(ErrorKind::usage, "--tp {} cannot split the {} of {}: take one of {}", tp, why,
          config.name, fmt::join(sizes, ", "));
  }
  const std::int64_t attention = std::int64_t{config.heads} * config.head_dim;
  return {qkv(config, tp),
          row_parallel(Op::gemm_rs, "attn_out", config, tp, attention, config.out_bias),
          up(config, tp),
          row_parallel(Op::gemm_rs, "down", config, tp, config.ffn, config.mlp_bias),
          row_parallel(Op::gemm_ar, "attn_out", config, tp, attention, config.out_bias),
          row_parallel(Op::gemm_ar, "down", config, tp, config.ffn, config.mlp_bias)};
}

Slice row_slice(const LayerGemm& gemm, std::size_t index, int rank) {
  check_rank(gemm, rank);
  require(index < gemm.n.size(), "layers: index of a weight of {}, got {}, expected less than {}",
          gemm.layer, index, gemm.n.size());
  return part(gemm.n[index], gemm.full_n[index], gemm.tp, rank);
}

Slice k_slice(const LayerGemm& gemm, int rank) {
  check_rank(gemm, rank);
  return part(gemm.k, gemm.full_k, gemm.tp, rank);
}

}  // namespace tilelace::model
