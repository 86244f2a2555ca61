// SPDX-License-Identifier: Apache-2.0
// Shards are slices of the whole, for every family's layout. The files are laid out here by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/half.h"
#include "model/random.h"
#include "model/shard.h"
#include "model_fixture.h"

namespace tilelace::model {
namespace {

constexpr int kLayer = 1;

/// The logical matrices' values: small integers, exact in every type.
float value(int salt, std::int64_t row, std::int64_t col) {
  return static_cast<float>((salt * 37 + row * 53 + col * 17) % 241 - 120);
}
constexpr int kQ = 1, kK = 2, kV = 3, kOut = 4, kGate = 5, kUp = 6, kDown = 7, kBiasSalt = 20;

/// Collects tensors and writes them as one file.
class Writer {
 public:
  using Element = std::function<float(std::int64_t, std::int64_t)>;

  explicit Writer(DType dtype) : dtype_(dtype) {}

  void matrix(const std::string& name, std::int64_t rows, std::int64_t cols, const Element& at) {
    add(name, std::to_string(rows) + "," + std::to_string(cols), rows, cols, at);
  }
  void vector(const std::string& name, std::int64_t size, const Element& at) {
    add(name, std::to_string(size), 1, size, at);
  }
  /// `padding` spaces after the header move the data to any alignment.
  [[nodiscard]] std::string bytes(std::size_t padding) const {
    return safetensors_bytes("{" + header_ + "}" + std::string(padding, ' '), data_);
  }

 private:
  void add(const std::string& name, const std::string& shape, std::int64_t rows, std::int64_t cols,
           const Element& at) {
    const std::size_t begin = data_.size(), width = size_of(dtype_);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) {
        std::uint32_t element = 0;
        store_element(&element, dtype_, 0, at(r, c));
        data_.append(reinterpret_cast<const char*>(&element), width);
      }
    const char* type = dtype_ == DType::fp32 ? "F32" : dtype_ == DType::fp16 ? "F16" : "BF16";
    header_ += (header_.empty() ? "\"" : ",\"") + name + R"(":{"dtype":")" + type +
               R"(","shape":[)" + shape + R"(],"data_offsets":[)" + std::to_string(begin) + "," +
               std::to_string(data_.size()) + "]}";
  }

  DType dtype_;
  std::string header_, data_;
};

/// A plain nn.Linear: [n, k] and its bias.
void linear(Writer& w, const std::string& name, int salt, std::int64_t n, std::int64_t k,
            bool bias) {
  w.matrix(name + ".weight", n, k, [=](auto r, auto c) { return value(salt, r, c); });
  if (bias)
    w.vector(name + ".bias", n, [=](auto, auto c) { return value(kBiasSalt + salt, 0, c); });
}

/// GPT-2's Conv1D: [k, n].
void conv1d(Writer& w, const std::string& name, int salt, std::int64_t n, std::int64_t k) {
  w.matrix(name + ".weight", k, n, [=](auto r, auto c) { return value(salt, c, r); });
  w.vector(name + ".bias", n, [=](auto, auto c) { return value(kBiasSalt + salt, 0, c); });
}

void write_llama(Writer& w, const ModelConfig& c, const std::string& prefix) {
  const std::string p = prefix + "layers.1.";
  const std::int64_t q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
  linear(w, p + "self_attn.q_proj", kQ, q, c.hidden, c.qkv_bias);
  linear(w, p + "self_attn.k_proj", kK, kv, c.hidden, c.qkv_bias);
  linear(w, p + "self_attn.v_proj", kV, kv, c.hidden, c.qkv_bias);
  linear(w, p + "self_attn.o_proj", kOut, c.hidden, q, c.out_bias);
  linear(w, p + "mlp.gate_proj", kGate, c.ffn, c.hidden, c.mlp_bias);
  linear(w, p + "mlp.up_proj", kUp, c.ffn, c.hidden, c.mlp_bias);
  linear(w, p + "mlp.down_proj", kDown, c.hidden, c.ffn, c.mlp_bias);
}

void write_gpt2(Writer& w, const ModelConfig& c, const std::string& prefix) {
  const std::string p = prefix + "h.1.";
  const std::int64_t h = c.hidden;
  w.matrix(p + "attn.c_attn.weight", h, 3 * h,
           [=](auto r, auto col) { return value(kQ + static_cast<int>(col / h), col % h, r); });
  w.vector(p + "attn.c_attn.bias", 3 * h, [=](auto, auto col) {
    return value(kBiasSalt + kQ + static_cast<int>(col / h), 0, col % h);
  });
  conv1d(w, p + "attn.c_proj", kOut, h, h);
  conv1d(w, p + "mlp.c_fc", kUp, c.ffn, h);
  conv1d(w, p + "mlp.c_proj", kDown, h, c.ffn);
}

void write_neox(Writer& w, const ModelConfig& c, const std::string& prefix) {
  const std::string p = prefix + "layers.1.";
  const std::int64_t d = c.head_dim;
  // view(heads, 3, head_dim): head by head q, k, v.
  const auto part = [d](std::int64_t row) { return static_cast<int>(row / d % 3); };
  const auto inner = [d](std::int64_t row) { return row / (3 * d) * d + row % d; };
  w.matrix(p + "attention.query_key_value.weight", 3 * c.hidden, c.hidden,
           [=](auto r, auto col) { return value(kQ + part(r), inner(r), col); });
  w.vector(p + "attention.query_key_value.bias", 3 * c.hidden,
           [=](auto, auto r) { return value(kBiasSalt + kQ + part(r), 0, inner(r)); });
  linear(w, p + "attention.dense", kOut, c.hidden, c.hidden, true);
  linear(w, p + "mlp.dense_h_to_4h", kUp, c.ffn, c.hidden, true);
  linear(w, p + "mlp.dense_4h_to_h", kDown, c.hidden, c.ffn, true);
}

void write_bert(Writer& w, const ModelConfig& c, const std::string& prefix) {
  const std::string p = prefix + "encoder.layer.1.";
  linear(w, p + "attention.self.query", kQ, c.hidden, c.hidden, true);
  linear(w, p + "attention.self.key", kK, c.hidden, c.hidden, true);
  linear(w, p + "attention.self.value", kV, c.hidden, c.hidden, true);
  linear(w, p + "attention.output.dense", kOut, c.hidden, c.hidden, true);
  linear(w, p + "intermediate.dense", kUp, c.ffn, c.hidden, true);
  linear(w, p + "output.dense", kDown, c.hidden, c.ffn, true);
}

std::string checkpoint_bytes(const ModelConfig& c, DType dtype, bool prefixed,
                             std::size_t padding = 0) {
  Writer w(dtype);
  if (c.family == "gpt2")
    write_gpt2(w, c, prefixed ? "transformer." : "");
  else if (c.family == "gpt_neox")
    write_neox(w, c, prefixed ? "gpt_neox." : "");
  else if (c.family == "bert")
    write_bert(w, c, prefixed ? "bert." : "");
  else
    write_llama(w, c, prefixed ? "model." : "");
  return w.bytes(padding);
}

float at(const Matrix& m, std::int64_t row, std::int64_t col) {
  return load_element(m.view.data, m.view.dtype, row * m.view.stride + col);
}

int salt_of(const LayerGemm& gemm, std::size_t index) {
  if (gemm.layer == "qkv") return kQ + static_cast<int>(index);
  if (gemm.layer == "attn_out") return kOut;
  if (gemm.layer == "gate_up") return kGate + static_cast<int>(index);
  return gemm.layer == "up" ? kUp : kDown;
}

void expect_laid_out(const Matrix& m, DType dtype, std::int64_t rows, std::int64_t cols) {
  EXPECT_EQ(m.view.dtype, dtype);
  ASSERT_EQ(m.view.rows, rows);
  ASSERT_EQ(m.view.cols, cols);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(m.view.data) % 64, 0U);
  EXPECT_EQ(m.view.stride * static_cast<std::int64_t>(size_of(dtype)) % 16, 0);
  EXPECT_LT((m.view.stride - cols) * static_cast<std::int64_t>(size_of(dtype)), 16);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = cols; c < m.view.stride; ++c) ASSERT_EQ(at(m, r, c), 0.0F);
}

/// Counts how often the ranks hold each element: the same number of times everywhere.
class Coverage {
 public:
  Coverage(std::int64_t rows, std::int64_t cols) : cols_(cols), counts_(rows * cols) {}
  void add(std::int64_t row, std::int64_t col) { ++counts_[row * cols_ + col]; }
  void expect(int times) const {
    for (const int n : counts_) ASSERT_EQ(n, times);
  }

 private:
  std::int64_t cols_;
  std::vector<int> counts_;
};

void expect_shards(const LayerSource& from, int tp, DType dtype,
                   const std::function<float(const LayerGemm&, std::size_t, bool bias, std::int64_t,
                                             std::int64_t)>& want) {
  for (const auto& gemm : layer_gemms(from.config, tp))
    for (std::size_t i = 0; i < gemm.n.size(); ++i) {
      Coverage coverage(gemm.full_n[i], gemm.full_k);
      for (int rank = 0; rank < tp; ++rank) {
        const auto held = shard(from, gemm, rank, dtype);
        const std::int64_t row0 = row_slice(gemm, i, rank).begin, col0 = k_slice(gemm, rank).begin;
        expect_laid_out(held.weights.at(i), dtype, gemm.n[i], gemm.k);
        for (std::int64_t r = 0; r < gemm.n[i]; ++r)
          for (std::int64_t c = 0; c < gemm.k; ++c) {
            ASSERT_EQ(at(held.weights[i], r, c), want(gemm, i, false, row0 + r, col0 + c))
                << gemm.layer << i << " " << r << " " << c;
            coverage.add(row0 + r, col0 + c);
          }
        ASSERT_EQ(held.biases.size(), gemm.bias ? gemm.n.size() : 0);
        if (!gemm.bias) continue;
        expect_laid_out(held.biases.at(i), dtype, 1, gemm.n[i]);
        for (std::int64_t r = 0; r < gemm.n[i]; ++r)
          ASSERT_EQ(at(held.biases[i], 0, r), want(gemm, i, true, 0, row0 + r)) << gemm.layer << i;
      }
      coverage.expect(static_cast<int>(gemm.n[i] * gemm.k * tp / (gemm.full_n[i] * gemm.full_k)));
    }
}

float expected_value(const LayerGemm& gemm, std::size_t i, bool bias, std::int64_t row,
                     std::int64_t col) {
  return value(salt_of(gemm, i) + (bias ? kBiasSalt : 0), row, col);
}

TEST(ModelShard, files_of_every_family) {
  const TempFolder dir;
  for (const auto& family : kFamilies) {
    const ModelConfig config = read_config(tiny_config(family));
    for (const DType stored : {DType::fp32, DType::bf16, DType::fp16})
      for (const bool prefixed : {true, false}) {
        SCOPED_TRACE(family + " " + std::string(name_of(stored)));
        const auto file = dir.write("m.safetensors",
                                    checkpoint_bytes(config, stored, prefixed, prefixed ? 0 : 1));
        const auto source = WeightSource::checkpoint(std::make_shared<Checkpoint>(file));
        const LayerSource from{config, source, kLayer};
        for (const int tp : {1, 2, 4, 8}) expect_shards(from, tp, config.dtype, expected_value);
        expect_shards(from, 2, stored, expected_value);
      }
  }
}

TEST(ModelShard, any_alignment_of_the_data) {
  const TempFolder dir;
  for (const auto& family : {"gpt2", "gpt_neox", "bert"})
    for (std::size_t padding = 0; padding < 8; ++padding) {
      const ModelConfig config = read_config(tiny_config(family));
      const auto file =
          dir.write("m.safetensors", checkpoint_bytes(config, DType::fp32, true, padding));
      const auto source = WeightSource::checkpoint(std::make_shared<Checkpoint>(file));
      expect_shards({config, source, kLayer}, 2, DType::bf16, expected_value);
    }
}

TEST(ModelShard, random_shards_are_slices_of_the_whole) {
  for (const auto& family : kFamilies) {
    SCOPED_TRACE(family);
    const ModelConfig config = read_config(tiny_config(family));
    const auto source = WeightSource::random(7);
    const LayerSource from{config, source, kLayer};
    for (const int tp : {1, 2, 4, 8}) {
      std::map<std::string, LayerWeights> whole;
      for (const auto& gemm : layer_gemms(config, tp))
        whole.insert_or_assign(gemm.layer, unsharded(from, gemm, config.dtype));
      expect_shards(
          from, tp, config.dtype,
          [&](const LayerGemm& g, std::size_t i, bool bias, std::int64_t r, std::int64_t c) {
            const auto& w = whole.at(g.layer);
            return bias ? at(w.biases.at(i), 0, c) : at(w.weights.at(i), r, c);
          });
    }
  }
}

TEST(ModelShard, random_values_depend_on_seed_layer_and_tensor) {
  const ModelConfig config = read_config(tiny_config("llama"));
  const auto gemms = layer_gemms(config, 1);
  const auto first = [&](std::uint64_t seed, int layer, std::size_t gemm, std::size_t index) {
    const auto source = WeightSource::random(seed);
    return at(unsharded({config, source, layer}, gemms[gemm], DType::fp32).weights[index], 0, 0);
  };
  const std::vector<float> values = {first(1, 0, 0, 0), first(2, 0, 0, 0), first(1, 1, 0, 0),
                                     first(1, 0, 0, 1), first(1, 0, 1, 0), first(1, 0, 2, 1)};
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(values[i], values[j]) << i << " " << j;
  EXPECT_EQ(first(1, 0, 1, 0), first(1, 0, 4, 0));  // gemm_rs and gemm_ar: the same layer
}

TEST(ModelShard, random_values_are_nearly_normal) {
  const Matrix m = make_matrix(DType::fp32, 500, 1000);
  fill_random(m.view, random_key(3, "x"), 0, 0, 2.0F);
  double sum = 0, squares = 0, fourth = 0, neighbours = 0, below = 0;
  for (std::int64_t r = 0; r < 500; ++r)
    for (std::int64_t c = 0; c < 1000; ++c) {
      const double v = at(m, r, c) / 2;
      sum += v, squares += v * v, fourth += v * v * v * v;
      if (c > 0) neighbours += v * at(m, r, c - 1) / 2;
      if (r > 0) below += v * at(m, r - 1, c) / 2;
    }
  const double n = 500'000;
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(squares / n, 1, 0.01);
  EXPECT_NEAR(fourth / n, 2.7, 0.05);  // a normal's is 3
  EXPECT_NEAR(neighbours / n, 0, 0.01);
  EXPECT_NEAR(below / n, 0, 0.01);
}

TEST(ModelShard, rounds_to_nearest_even) {
  const TempFolder dir;
  const ModelConfig config = read_config(tiny_config("bert"));
  const auto exact = [](std::int64_t r, std::int64_t c) {
    return 1.0F + static_cast<float>(r * 32 + c) / 8192.0F;
  };
  Writer w(DType::fp32);
  w.matrix("encoder.layer.0.attention.output.dense.weight", 32, 32, exact);
  w.vector("encoder.layer.0.attention.output.dense.bias", 32, exact);
  const auto file = dir.write("m.safetensors", w.bytes(0));
  const auto source = WeightSource::checkpoint(std::make_shared<Checkpoint>(file));
  const auto gemm = layer_gemms(config, 1)[1];
  const auto bf16 = unsharded({config, source, 0}, gemm, DType::bf16).weights[0];
  const auto fp16 = unsharded({config, source, 0}, gemm, DType::fp16).weights[0];
  for (std::int64_t i = 0; i < 1024; ++i) {
    // nearbyint rounds halves to even; the types keep 7 and 10 bits of the fraction.
    const double v = 1.0 + static_cast<double>(i) / 8192.0;
    EXPECT_EQ(at(bf16, i / 32, i % 32), std::nearbyint(v * 128) / 128);
    EXPECT_EQ(at(fp16, i / 32, i % 32), std::nearbyint(v * 1024) / 1024);
  }
}

TEST(ModelShard, blocks) {
  const ModelConfig config = read_config(tiny_config("qwen2"));
  const auto source = WeightSource::random(1);
  const LayerSource from{config, source, 0};
  const auto gemm = layer_gemms(config, 4)[0];
  const auto whole = unsharded(from, gemm, DType::bf16);
  const auto block = weight_block(from, gemm, 2, {3, 6}, {5, 12}, DType::bf16);
  expect_laid_out(block, DType::bf16, 3, 7);
  for (std::int64_t r = 0; r < 3; ++r)
    for (std::int64_t c = 0; c < 7; ++c)
      EXPECT_EQ(at(block, r, c), at(whole.weights[2], 3 + r, 5 + c));
  EXPECT_EQ(at(bias_block(from, gemm, 1, {6, 8}, DType::bf16), 0, 1), at(whole.biases[1], 0, 7));
}

TEST(ModelShard, errors) {
  const TempFolder dir;
  ModelConfig config = read_config(tiny_config("bert"));
  const auto file = dir.write("m.safetensors", checkpoint_bytes(config, DType::fp32, true));
  const auto source = WeightSource::checkpoint(std::make_shared<Checkpoint>(file));
  const auto error = [&](const ModelConfig& c, int layer, std::size_t gemm, int rank) {
    return dir.error_of([&] {
      shard({c, source, layer}, layer_gemms(c, 2)[gemm], rank, DType::fp32);
    });
  };
  EXPECT_EQ(error(config, 0, 0, 0),
            "safetensors: DIR/m.safetensors: there is no tensor "
            "bert.encoder.layer.0.attention.self.query.weight");
  EXPECT_EQ(error(config, 2, 0, 0), "weights: layer of tiny_bert, got 2, expected 0 to 1");
  EXPECT_EQ(error(config, -1, 0, 0), "weights: layer of tiny_bert, got -1, expected 0 to 1");
  EXPECT_EQ(error(config, 1, 0, 2), "layers: rank, got 2, expected 0 to 1");
  config.ffn = 64;
  EXPECT_EQ(
      error(config, 1, 2, 0),
      "weights: DIR/m.safetensors: tensor bert.encoder.layer.1.intermediate.dense.weight, got "
      "shape [48, 32], expected [64, 32]");
  const auto gemm = layer_gemms(config, 2)[1];
  EXPECT_EQ(dir.error_of([&] {
    weight_block({config, source, 1}, gemm, 0, {0, 33}, {0, 1}, DType::fp32);
  }),
            "weights: rows of attn_out, got [0, 33), expected a part of [0, 32)");
  EXPECT_EQ(dir.error_of([] { make_matrix(DType::fp32, std::int64_t{1} << 40, 1 << 30); }),
            "weights: no memory can hold 1099511627776 x 1073741824 elements");
}

}  // namespace
}  // namespace tilelace::model
