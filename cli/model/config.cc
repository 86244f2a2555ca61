// SPDX-License-Identifier: Apache-2.0
#include "model/config.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "core/read_text.h"
#include "model/fields.h"
#include "model/json_file.h"

namespace tilelace::model {
namespace {

/// How a family spells its sizes.
struct Family {
  std::string_view name;  ///< its model_type
  std::string_view stem;  ///< what the names of its classes start with
  const char* hidden;
  const char* layers;
  const char* heads;
  const char* ffn;
  const char* activation;
  const char* default_activation;
  bool gated;  ///< and then: grouped KV heads and an own head_dim
};

constexpr Family hugging_face(std::string_view name, std::string_view stem, const char* activation,
                              bool gated) {
  return {name,
          stem,
          "hidden_size",
          "num_hidden_layers",
          "num_attention_heads",
          "intermediate_size",
          "hidden_act",
          activation,
          gated};
}

constexpr std::array kFamilies = {
    hugging_face("llama", "Llama", "silu", true),
    hugging_face("mistral", "Mistral", "silu", true),
    hugging_face("qwen2", "Qwen2", "silu", true),
    hugging_face("qwen3", "Qwen3", "silu", true),
    Family{"gpt2", "GPT2", "n_embd", "n_layer", "n_head", "n_inner", "activation_function",
           "gelu_new", false},
    hugging_face("gpt_neox", "GPTNeoX", "gelu", false),
    hugging_face("bert", "Bert", "gelu", false),
};

constexpr std::array<std::pair<std::string_view, Activation>, 6> kActivations = {{
    {"gelu", Activation::gelu},
    {"gelu_new", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"silu", Activation::silu},
    {"swish", Activation::silu},
}};

/// LlamaForCausalLM and LlamaModel are of the family Llama; Qwen2MoeForCausalLM is not of Qwen2.
bool has_stem(std::string_view architecture, std::string_view stem) {
  if (!architecture.starts_with(stem)) return false;
  const auto rest = architecture.substr(stem.size());
  for (const std::string_view tail : {"For", "Model", "LMHead", "DoubleHeads"})
    if (rest.starts_with(tail)) return true;
  return false;
}

const Family& family_of(const Fields& fields) {
  const auto* type = fields.find("model_type");
  const auto* classes = fields.find("architectures");
  if (type != nullptr && type->is_string()) {
    for (const Family& f : kFamilies)
      if (f.name == type->get_ref<const std::string&>()) return f;
  } else if (type == nullptr && classes != nullptr && classes->is_array()) {
    for (const auto& entry : *classes)
      for (const Family& f : kFamilies)
        if (entry.is_string() && has_stem(entry.get_ref<const std::string&>(), f.stem)) return f;
  }
  fields.fail("model_type", "one of " + listed(kFamilies, [](const Family& f) { return f.name; }));
}

void read_sizes(ModelConfig& c, const Fields& fields, const Family& family) {
  c.layers = fields.size(family.layers);
  c.hidden = fields.size(family.hidden);
  c.heads = fields.size(family.heads);
  c.kv_heads = c.heads;
  const bool own_head_dim = family.gated && fields.find("head_dim") != nullptr;
  if (family.gated) c.kv_heads = fields.size_or("num_key_value_heads", c.heads);
  if (c.heads % c.kv_heads != 0)
    fields.fail("num_key_value_heads", fmt::format("a divisor of {} = {}", family.heads, c.heads));
  if (own_head_dim) {
    c.head_dim = fields.size("head_dim");
  } else if (family.name == "qwen3") {
    c.head_dim = 128;  // the default of its class, whatever the hidden size
  } else {
    if (c.hidden % c.heads != 0)
      fields.fail(family.heads, fmt::format("a divisor of {} = {}", family.hidden, c.hidden));
    c.head_dim = c.hidden / c.heads;
  }
  if (std::int64_t{c.heads} * c.head_dim > kMaxSize)
    fields.fail("head_dim", fmt::format("at most {} with {} heads", kMaxSize / c.heads, c.heads));
  const bool may_be_absent = family.name == "gpt2";
  c.ffn =
      may_be_absent && fields.find(family.ffn) == nullptr ? 4 * c.hidden : fields.size(family.ffn);
}

void read_biases(ModelConfig& c, const Fields& fields) {
  if (c.family == "llama") {
    c.qkv_bias = c.out_bias = fields.flag_or("attention_bias", false);
    c.mlp_bias = fields.flag_or("mlp_bias", false);
  } else if (c.family == "qwen2") {
    c.qkv_bias = true;
  } else if (c.family == "qwen3") {
    c.qkv_bias = c.out_bias = fields.flag_or("attention_bias", false);
  } else if (c.family == "gpt_neox") {
    c.qkv_bias = c.out_bias = fields.flag_or("attention_bias", true);
    c.mlp_bias = true;
  } else if (!c.gated) {
    c.qkv_bias = c.out_bias = c.mlp_bias = true;
  }
}

}  // namespace

ModelConfig read_config(const std::filesystem::path& file) {
  const auto object = parse_object("config", file, read_text("config", file, kMaxFile));
  const Fields fields(object, file.string());
  const Family& family = family_of(fields);
  ModelConfig c;
  c.name = name_from(file);
  c.family = family.name;
  c.gated = family.gated;
  read_sizes(c, fields, family);
  read_biases(c, fields);
  c.activation = fields.word(family.activation, family.default_activation, kActivations);
  if (c.gated && c.activation != Activation::silu)
    fields.fail(family.activation, "silu (or swish), the only gate of swiglu");
  c.dtype = fields.dtype();
  return c;
}

}  // namespace tilelace::model
