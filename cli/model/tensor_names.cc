// SPDX-License-Identifier: Apache-2.0
#include "model/tensor_names.h"

#include <array>
#include <string_view>
#include <utility>

#include "core/check.h"

namespace tilelace::model {
namespace {

constexpr std::size_t kFused = 3;  // q, k and v in one tensor

/// A family's names of q, k, v (one name: fused), attention output, MLP in (gate first) and out.
struct Names {
  std::string_view family, prefix, layers;
  std::array<std::string_view, kFused> qkv;
  std::string_view out;
  std::array<std::string_view, 2> up;
  std::string_view down;
};

constexpr Names llama(std::string_view family) {
  return {family,
          "model.",
          "layers",
          {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
          "self_attn.o_proj",
          {"mlp.gate_proj", "mlp.up_proj"},
          "mlp.down_proj"};
}

constexpr std::array kNames = {
    llama("llama"),
    llama("mistral"),
    llama("qwen2"),
    llama("qwen3"),
    Names{"gpt2", "transformer.", "h", {"attn.c_attn"}, "attn.c_proj", {"mlp.c_fc"}, "mlp.c_proj"},
    Names{"gpt_neox",
          "gpt_neox.",
          "layers",
          {"attention.query_key_value"},
          "attention.dense",
          {"mlp.dense_h_to_4h"},
          "mlp.dense_4h_to_h"},
    Names{"bert",
          "bert.",
          "encoder.layer",
          {"attention.self.query", "attention.self.key", "attention.self.value"},
          "attention.output.dense",
          {"intermediate.dense"},
          "output.dense"},
};

const Names& names_of(const std::string& family) {
  for (const Names& n : kNames)
    if (n.family == family) return n;
  raise(ErrorKind::usage, "weights: family, got {}, expected one that read_config() gives", family);
}

}  // namespace

Place place_of(const ModelConfig& config, const LayerGemm& gemm, std::size_t index, int layer) {
  const Names& names = names_of(config.family);
  const bool is_qkv = gemm.layer == "qkv";
  const bool fused = is_qkv && names.qkv[1].empty();
  std::string_view leaf = gemm.layer == "attn_out" ? names.out : names.down;
  if (is_qkv) leaf = names.qkv[fused ? 0 : index];
  if (gemm.layer == "gate_up" || gemm.layer == "up") leaf = names.up[index];

  Place p;
  p.prefix = names.prefix;
  p.stem = fmt::format("{}.{}.{}", names.layers, layer, leaf);
  p.rows = gemm.full_n[index] * static_cast<std::int64_t>(fused ? kFused : 1);
  p.cols = gemm.full_k;
  p.transposed = config.family == "gpt2";
  p.group = p.stride = gemm.full_n[index];
  const auto which = static_cast<std::int64_t>(index);
  if (fused && config.family == "gpt_neox") {
    // [heads, 3, head_dim]: q, k and v of one head follow one another.
    p.group = config.head_dim;
    p.stride = config.head_dim * static_cast<std::int64_t>(kFused);
    p.offset = which * config.head_dim;
  } else if (fused) {
    p.offset = which * gemm.full_n[index];
  }
  return p;
}

}  // namespace tilelace::model
