// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "model/layers.h"
#include "model_fixture.h"

namespace tilelace::model {
namespace {

/// One line a GEMM: op layer n.. / k of the rank, of the whole, activation, bias.
std::string described(const ModelConfig& config, int tp) {
  std::string text;
  for (const auto& g : layer_gemms(config, tp)) {
    EXPECT_EQ(g.tp, tp);
    EXPECT_EQ(g.gated, g.layer == "gate_up");
    text += fmt::format("{} {} {}x{} of {}x{} a{}{}\n", static_cast<int>(g.op), g.layer,
                        fmt::join(g.n, ","), g.k, fmt::join(g.full_n, ","), g.full_k,
                        static_cast<int>(g.activation), g.bias ? " bias" : "");
  }
  return text;
}

std::string tiny(const char* family, int tp) {
  return described(read_config(tiny_config(family)), tp);
}

// Ops: 0 ag_gemm, 1 gemm_rs, 2 gemm_ar. Activations: a0 none, a1 gelu, a2 gelu_tanh, a4
// swiglu.
TEST(ModelLayers, llama) {
  EXPECT_EQ(tiny("llama", 1),
            "0 qkv 32,8,8x32 of 32,8,8x32 a0 bias\n"
            "1 attn_out 32x32 of 32x32 a0 bias\n"
            "0 gate_up 48,48x32 of 48,48x32 a4 bias\n"
            "1 down 32x48 of 32x48 a0 bias\n"
            "2 attn_out 32x32 of 32x32 a0 bias\n"
            "2 down 32x48 of 32x48 a0 bias\n");
  EXPECT_EQ(tiny("llama", 2),
            "0 qkv 16,4,4x32 of 32,8,8x32 a0 bias\n"
            "1 attn_out 32x16 of 32x32 a0 bias\n"
            "0 gate_up 24,24x32 of 48,48x32 a4 bias\n"
            "1 down 32x24 of 32x48 a0 bias\n"
            "2 attn_out 32x16 of 32x32 a0 bias\n"
            "2 down 32x24 of 32x48 a0 bias\n");
  EXPECT_EQ(tiny("llama", 4),
            "0 qkv 8,4,4x32 of 32,8,8x32 a0 bias\n"
            "1 attn_out 32x8 of 32x32 a0 bias\n"
            "0 gate_up 12,12x32 of 48,48x32 a4 bias\n"
            "1 down 32x12 of 32x48 a0 bias\n"
            "2 attn_out 32x8 of 32x32 a0 bias\n"
            "2 down 32x12 of 32x48 a0 bias\n");
}

TEST(ModelLayers, mistral_and_qwen) {
  for (const int tp : {1, 2, 4}) {
    const int q = 32 / tp, kv = tp == 1 ? 8 : 4, f = 48 / tp;
    const auto want = [&](const char* bias) {
      return fmt::format(
          "0 qkv {0},{1},{1}x32 of 32,8,8x32 a0{3}\n"
          "1 attn_out 32x{0} of 32x32 a0\n"
          "0 gate_up {2},{2}x32 of 48,48x32 a4\n"
          "1 down 32x{2} of 32x48 a0\n"
          "2 attn_out 32x{0} of 32x32 a0\n"
          "2 down 32x{2} of 32x48 a0\n",
          q, kv, f, bias);
    };
    EXPECT_EQ(tiny("mistral", tp), want(""));
    EXPECT_EQ(tiny("qwen2", tp), want(" bias"));
  }
  // head_dim 8: the attention is twice as wide as the hidden size.
  EXPECT_EQ(tiny("qwen3", 4),
            "0 qkv 16,8,8x32 of 64,16,16x32 a0\n"
            "1 attn_out 32x16 of 32x64 a0\n"
            "0 gate_up 12,12x32 of 48,48x32 a4\n"
            "1 down 32x12 of 32x48 a0\n"
            "2 attn_out 32x16 of 32x64 a0\n"
            "2 down 32x12 of 32x48 a0\n");
}

TEST(ModelLayers, without_a_gate) {
  for (const int tp : {1, 2, 4}) {
    const auto want = [&](int ffn, const char* activation) {
      return fmt::format(
          "0 qkv {0},{0},{0}x32 of 32,32,32x32 a0 bias\n"
          "1 attn_out 32x{0} of 32x32 a0 bias\n"
          "0 up {1}x32 of {2}x32 {3} bias\n"
          "1 down 32x{1} of 32x{2} a0 bias\n"
          "2 attn_out 32x{0} of 32x32 a0 bias\n"
          "2 down 32x{1} of 32x{2} a0 bias\n",
          32 / tp, ffn / tp, ffn, activation);
    };
    EXPECT_EQ(tiny("gpt2", tp), want(128, "a2"));
    EXPECT_EQ(tiny("gpt_neox", tp), want(48, "a2"));
    EXPECT_EQ(tiny("bert", tp), want(48, "a1"));
  }
}

TEST(ModelLayers, replicated_kv_heads) {
  const auto gemms = layer_gemms(read_config(tiny_config("llama")), 8);
  const auto& qkv = gemms[0];
  EXPECT_EQ(qkv.n, (std::vector<std::int64_t>{4, 4, 4}));
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(row_slice(qkv, 0, rank), (Slice{4 * rank, 4 * rank + 4}));
    EXPECT_EQ(row_slice(qkv, 1, rank), (rank < 4 ? Slice{0, 4} : Slice{4, 8}));
    EXPECT_EQ(k_slice(qkv, rank), (Slice{0, 32}));
    EXPECT_EQ(row_slice(gemms[3], 0, rank), (Slice{0, 32}));
    EXPECT_EQ(k_slice(gemms[3], rank), (Slice{6 * rank, 6 * rank + 6}));
  }
}

TEST(ModelLayers, errors) {
  const TempFolder dir;
  const auto tp_error = [&](const char* model, int tp) {
    return dir.error_of([&] { layer_gemms(read_config(find_model(model)), tp); });
  };
  EXPECT_EQ(tp_error("minilm-l6", 5),
            "--tp 5 cannot split the 12 heads of minilm-l6: take one of 1, 2, 3, 4, 6, 12");
  EXPECT_EQ(tp_error("qwen2.5-0.5b", 7),
            "--tp 7 cannot split the 2 KV heads of qwen2.5-0.5b: take one of 1, 2");
  auto narrow = read_config(tiny_config("gpt_neox"));
  narrow.heads = narrow.kv_heads = 32;
  EXPECT_EQ(
      dir.error_of([&] { layer_gemms(narrow, 32); }),
      "--tp 32 cannot split the 48 MLP features of tiny_gpt_neox: take one of 1, 2, 4, 8, 16");
  EXPECT_EQ(tp_error("llama3.1-8b", 64),
            "--tp 64 cannot split the 32 heads of llama3.1-8b: take one of 1, 2, 4, 8, 16, 32");
  EXPECT_EQ(tp_error("llama3.1-8b", 0), "--tp: got 0, expected at least 1");
  EXPECT_EQ(tp_error("llama3.1-8b", -4), "--tp: got -4, expected at least 1");
  EXPECT_EQ(tp_error("llama3.1-8b", 2147483647),
            "--tp 2147483647 cannot split the 32 heads of llama3.1-8b: take one of 1, 2, 4, 8, 16, "
            "32");
  const auto gemm = layer_gemms(read_config(find_model("minilm-l6")), 3)[0];
  EXPECT_EQ(dir.error_of([&] { row_slice(gemm, 0, 3); }), "layers: rank, got 3, expected 0 to 2");
  EXPECT_EQ(dir.error_of([&] { k_slice(gemm, -1); }), "layers: rank, got -1, expected 0 to 2");
  EXPECT_EQ(dir.error_of([&] { row_slice(gemm, 3, 0); }),
            "layers: index of a weight of qkv, got 3, expected less than 3");
}

}  // namespace
}  // namespace tilelace::model
