// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "gpu/gemm/rows.h"
#include "model/config.h"
#include "model_fixture.h"

namespace tilelace::model {
namespace {

const std::string kGood = R"("hidden_size":32,"num_hidden_layers":2,"num_attention_heads":8,)"
                          R"("intermediate_size":48)";

ModelConfig tiny(const char* family) { return read_config(tiny_config(family)); }

TEST(ModelConfig, families) {
  using A = Activation;
  ModelConfig want{"tiny_llama", "llama",     2,    32,      8,    2,    4,
                   48,           DType::bf16, true, A::silu, true, true, true};
  EXPECT_EQ(tiny("llama"), want);
  want.qkv_bias = want.out_bias = want.mlp_bias = false;
  want.name = "tiny_mistral", want.family = "mistral";
  EXPECT_EQ(tiny("mistral"), want);
  want.name = "tiny_qwen3", want.family = "qwen3", want.head_dim = 8;
  EXPECT_EQ(tiny("qwen3"), want);
  want.name = "tiny_qwen2", want.family = "qwen2", want.head_dim = 4, want.qkv_bias = true;
  EXPECT_EQ(tiny("qwen2"), want);

  want = {"tiny_gpt2", "gpt2",      2,     32,           8,    8,    4,
          128,         DType::fp32, false, A::gelu_tanh, true, true, true};
  EXPECT_EQ(tiny("gpt2"), want);
  want.name = "tiny_gpt_neox", want.family = "gpt_neox", want.ffn = 48, want.dtype = DType::fp16;
  EXPECT_EQ(tiny("gpt_neox"), want);
  want.name = "tiny_bert", want.family = "bert", want.dtype = DType::fp32;
  want.activation = A::gelu;
  EXPECT_EQ(tiny("bert"), want);
}

TEST(ModelConfig, defaults) {
  const TempFolder dir;
  const auto llama =
      read_config(dir.write("a/config.json", R"({"model_type":"llama",)" + kGood + "}"));
  EXPECT_EQ(llama, (ModelConfig{"a", "llama", 2, 32, 8, 8, 4, 48, DType::fp32, true,
                                Activation::silu, false, false, false}));
  const auto qwen3 = read_config(dir.write("q.json", R"({"model_type":"qwen3",)" + kGood + "}"));
  EXPECT_EQ(qwen3.head_dim, 128);
  const auto neox = read_config(
      dir.write("n.json", R"({"model_type":"gpt_neox","attention_bias":false,)" + kGood + "}"));
  EXPECT_FALSE(neox.qkv_bias || neox.out_bias);
  EXPECT_TRUE(neox.mlp_bias);
  EXPECT_EQ(neox.activation, Activation::gelu);
  const auto stem = read_config(
      dir.write("s.json", R"({"architectures":["Other","Qwen2ForCausalLM"],)" + kGood + "}"));
  EXPECT_EQ(stem.family, "qwen2");
}

TEST(ModelConfig, activations) {
  const TempFolder dir;
  for (const auto& [name, want] :
       std::vector<std::pair<std::string, Activation>>{{"gelu", Activation::gelu},
                                                       {"gelu_new", Activation::gelu_tanh},
                                                       {"gelu_fast", Activation::gelu_tanh},
                                                       {"gelu_pytorch_tanh", Activation::gelu_tanh},
                                                       {"silu", Activation::silu},
                                                       {"swish", Activation::silu}}) {
    const auto file =
        dir.write("c.json", R"({"model_type":"bert","hidden_act":")" + name + "\"," + kGood + "}");
    EXPECT_EQ(read_config(file).activation, want) << name;
  }
}

struct BadConfig {
  std::string text, error;
};

const std::string kRange = ", expected a whole number from 1 to 16777216";
const std::string kOneOf = ", expected one of llama, mistral, qwen2, qwen3, gpt2, gpt_neox, bert";

/// A llama config with one field changed.
std::string with(const std::string& field, const std::string& value) {
  std::string text = R"({"model_type":"llama",)" + kGood + "}";
  const auto at = text.find("\"" + field + "\"");
  if (at == std::string::npos) return text.insert(1, "\"" + field + "\":" + value + ",");
  const auto colon = text.find(':', at) + 1;
  return text.replace(colon, text.find_first_of(",}", colon) - colon, value);
}

const std::string kField = "config: DIR/bad.json: ";

std::vector<BadConfig> not_a_config() {
  const std::string file = "config: DIR/bad.json, got ";
  const std::string object = ", expected a JSON object";
  const auto deep = [](int n) { return with("x", std::string(n, '[') + std::string(n, ']')); };
  return {
      {"", "config: DIR/bad.json is empty"},
      {"hello", file + "a JSON syntax error at byte 1" + object},
      {"[]", file + "a list" + object},
      {"3", file + "3" + object},
      {"{", file + "a JSON syntax error at byte 2" + object},
      {"{} {}", file + "a JSON syntax error at byte 4" + object},
      {"{\"a\":1e999}", "config: DIR/bad.json has a number out of range"},
      {std::string("{\"a\":\"\xff\"}"), file + "a JSON syntax error at byte 7" + object},
      {std::string(4, '\0'), file + "a JSON syntax error at byte 1" + object},
      {deep(65), "config: DIR/bad.json has JSON nested deeper than 64 levels"},
      {std::string(1000000, '['), "config: DIR/bad.json has JSON nested deeper than 64 levels"},
      {std::string(1048577, ' '),
       "config: DIR/bad.json: got 1048577 bytes, expected at most 1048576"},
      {"{}", kField + "model_type, got nothing" + kOneOf},
      {with("model_type", "\"mamba\""), kField + "model_type, got \"mamba\"" + kOneOf},
      {with("model_type", "7"), kField + "model_type, got 7" + kOneOf},
      {"{\"architectures\":[\"Qwen2MoeForCausalLM\"]}",
       kField + "model_type, got nothing" + kOneOf},
      {"{\"architectures\":[1,{}]}", kField + "model_type, got nothing" + kOneOf},
      {"{\"model_type\":\"llama\"}", kField + "num_hidden_layers, got nothing" + kRange},
      {"{\"model_type\":\"gpt2\"}", kField + "n_layer, got nothing" + kRange},
  };
}

std::vector<BadConfig> bad_fields() {
  return {
      {with("num_hidden_layers", "0"), kField + "num_hidden_layers, got 0" + kRange},
      {with("hidden_size", "null"), kField + "hidden_size, got nothing" + kRange},
      {with("hidden_size", "-32"), kField + "hidden_size, got -32" + kRange},
      {with("hidden_size", "16777217"), kField + "hidden_size, got 16777217" + kRange},
      {with("hidden_size", "18446744073709551615"),
       kField + "hidden_size, got 18446744073709551615" + kRange},
      {with("hidden_size", "9223372036854775808"),
       kField + "hidden_size, got 9223372036854775808" + kRange},
      {with("hidden_size", "32.0"), kField + "hidden_size, got 32.0" + kRange},
      {with("hidden_size", "\"32\""), kField + "hidden_size, got \"32\"" + kRange},
      {with("hidden_size", "[32]"), kField + "hidden_size, got a list" + kRange},
      {with("hidden_size", "{}"), kField + "hidden_size, got an object" + kRange},
      {with("hidden_size", "true"), kField + "hidden_size, got true" + kRange},
      {with("hidden_size", "\"" + std::string(99, 'x') + "\""),
       kField + "hidden_size, got \"" + std::string(59, 'x') + "..." + kRange},
      {with("intermediate_size", "0"), kField + "intermediate_size, got 0" + kRange},
      {with("num_attention_heads", "7"),
       kField + "num_attention_heads, got 7, expected a divisor of hidden_size = 32"},
      {with("num_key_value_heads", "3"),
       kField + "num_key_value_heads, got 3, expected a divisor of num_attention_heads = 8"},
      {with("num_key_value_heads", "16"),
       kField + "num_key_value_heads, got 16, expected a divisor of num_attention_heads = 8"},
      {with("head_dim", "0"), kField + "head_dim, got 0" + kRange},
      {with("head_dim", "16777216"),
       kField + "head_dim, got 16777216, expected at most 2097152 with 8 heads"},
      {with("attention_bias", "1"), kField + "attention_bias, got 1, expected true or false"},
      {with("mlp_bias", "\"no\""), kField + "mlp_bias, got \"no\", expected true or false"},
      {with("hidden_act", "\"relu\""),
       kField + "hidden_act, got \"relu\", expected one of gelu, gelu_new, gelu_fast, "
                "gelu_pytorch_tanh, silu, swish"},
      {with("hidden_act", "\"gelu\""),
       kField + "hidden_act, got \"gelu\", expected silu (or swish), the only gate of swiglu"},
      {with("torch_dtype", "\"float64\""),
       kField + "torch_dtype, got \"float64\", expected one of bfloat16, float16, float32"},
      {with("dtype", "16"), kField + "dtype, got 16, expected one of bfloat16, float16, float32"},
  };
}

TEST(ModelConfig, bad_input_has_golden_texts) {
  const TempFolder dir;
  auto cases = not_a_config();
  for (auto& c : bad_fields()) cases.push_back(c);
  for (const auto& [text, error] : cases) {
    const auto file = dir.write("bad.json", text);
    EXPECT_EQ(dir.error_of([&] { read_config(file); }), error) << text.substr(0, 200);
  }
}

TEST(ModelConfig, not_a_readable_file) {
  const TempFolder dir;
  EXPECT_EQ(dir.error_of([&] { read_config(dir.path() / "none.json"); }),
            "config: DIR/none.json cannot be read: No such file or directory");
  EXPECT_EQ(dir.error_of([&] { read_config(dir.path()); }),
            "config: DIR is a folder, expected a regular file");
  ASSERT_EQ(::mkfifo((dir.path() / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(dir.error_of([&] { read_config(dir.path() / "pipe"); }),
            "config: DIR/pipe is a special file, expected a regular file");
  const auto huge = dir.write("huge.json", "{");
  std::filesystem::resize_file(huge, 100'000'000);
  EXPECT_EQ(dir.error_of([&] { read_config(huge); }),
            "config: DIR/huge.json: got 100000000 bytes, expected at most 1048576");
}

TEST(ModelConfig, every_prefix_is_refused) {
  const TempFolder dir;
  const std::string text = with("num_key_value_heads", "2");
  for (std::size_t n = 0; n < text.size(); ++n) {
    const auto file = dir.write("bad.json", text.substr(0, n));
    EXPECT_EQ(dir.error_of([&] { read_config(file); }).substr(0, 20), "config: DIR/bad.json") << n;
  }
}

TEST(ModelConfig, known_models) {
  const std::vector<std::string> want = {"gpt3-175b",    "llama2-70b",  "llama3.1-70b",
                                         "llama3.1-8b",  "minilm-l6",   "mistral-7b",
                                         "qwen2.5-0.5b", "qwen2.5-72b", "qwen3-32b"};
  EXPECT_EQ(known_models(), want);
  for (const auto& name : want) EXPECT_EQ(read_config(find_model(name)).name, name);
  const auto facts = [](const char* name) {
    const auto c = read_config(find_model(name));
    return std::vector{c.layers, c.hidden, c.heads, c.kv_heads, c.head_dim, c.ffn};
  };
  EXPECT_EQ(facts("gpt3-175b"), (std::vector{96, 12288, 96, 96, 128, 49152}));
  EXPECT_EQ(facts("llama2-70b"), (std::vector{80, 8192, 64, 8, 128, 28672}));
  EXPECT_EQ(facts("llama3.1-8b"), (std::vector{32, 4096, 32, 8, 128, 14336}));
  EXPECT_EQ(facts("llama3.1-70b"), (std::vector{80, 8192, 64, 8, 128, 28672}));
  EXPECT_EQ(facts("qwen2.5-0.5b"), (std::vector{24, 896, 14, 2, 64, 4864}));
  EXPECT_EQ(facts("qwen2.5-72b"), (std::vector{80, 8192, 64, 8, 128, 29568}));
  EXPECT_EQ(facts("qwen3-32b"), (std::vector{64, 5120, 64, 8, 128, 25600}));
  EXPECT_EQ(facts("mistral-7b"), (std::vector{32, 4096, 32, 8, 128, 14336}));
  EXPECT_EQ(facts("minilm-l6"), (std::vector{6, 384, 12, 12, 32, 1536}));
}

TEST(ModelConfig, ModelsOfGpuProgramsHaveTheSizesOfTheirConfigs) {
  for (const test::GemmModel& m : test::kGemmModels) {
    const ModelConfig c = read_config(find_model(m.config));
    EXPECT_EQ((std::pair{m.hidden, m.inner}),
              (std::pair<std::int64_t, std::int64_t>{c.hidden, c.ffn}))
        << m.name;
  }
}

TEST(ModelConfig, find_model) {
  const TempFolder dir;
  const auto file = dir.write("m/config.json", "{}");
  EXPECT_EQ(find_model((dir.path() / "m").string()), file);
  EXPECT_EQ(find_model(file.string()), file);
  EXPECT_EQ(dir.error_of([&] { find_model(dir.path().string()); }),
            "--model: the folder DIR has no config.json");
  for (const std::string name : {"gpt5", "", "../models/llama2-70b", "./no"})
    EXPECT_EQ(dir.error_of([&] { find_model(name); }),
              "--model: got \"" + name +
                  "\", expected one of gpt3-175b, llama2-70b, llama3.1-70b, llama3.1-8b, "
                  "minilm-l6, mistral-7b, qwen2.5-0.5b, qwen2.5-72b, qwen3-32b, a config.json, a "
                  "folder with one, or sizes (hidden=N,intermediate=N,heads=N)");
}

}  // namespace
}  // namespace tilelace::model
