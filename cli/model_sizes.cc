// SPDX-License-Identifier: Apache-2.0
#include "model_sizes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

#include "core/check.h"
#include "model/experts.h"
#include "sizes.h"
#include "text_width.h"

namespace tilelace::cli {
namespace {

constexpr int kMostOfASize = 1 << 24;
constexpr const char* kSizes =
    "hidden, intermediate, heads, kv_heads, head_dim, layers, activation";
constexpr Activation kActivations[] = {Activation::swiglu, Activation::gelu, Activation::gelu_tanh,
                                       Activation::silu, Activation::none};

std::string names_of_activations() {
  std::vector<std::string_view> names;
  for (const Activation a : kActivations) names.push_back(name_of(a));
  return fmt::format("{}", fmt::join(names, "|"));
}

Activation activation_of(const std::string& text) {
  for (const Activation a : kActivations)
    if (name_of(a) == text) return a;
  raise(ErrorKind::usage, "--model activation: got \"{}\", expected {}", text,
        names_of_activations());
}

std::map<std::string, std::string> values_of_sizes(std::string_view text) {
  std::map<std::string, std::string> values;
  for (const auto& [key, value] : split_pairs("--model", text)) {
    require(fmt::format(", {},", kSizes).find(" " + key + ",") != std::string::npos,
            "--model: got \"{}\", expected the keys {}", key, kSizes);
    require(values.emplace(key, value).second, "--model: {} is given twice", key);
  }
  return values;
}

}  // namespace

bool are_model_sizes(const std::string& model) {
  std::error_code error;
  return model.find('=') != std::string::npos && !std::filesystem::exists(model, error);
}

model::ModelConfig config_of_sizes(std::string_view text) {
  const auto values = values_of_sizes(text);
  const auto size = [&](const std::string& key, int fallback) {
    const auto at = values.find(key);
    require(at != values.end() || fallback > 0,
            "--model: {} is missing: give at least hidden, intermediate and heads", key);
    if (at == values.end()) return fallback;
    return static_cast<int>(parse_number("--model " + key, at->second, 1, kMostOfASize));
  };
  model::ModelConfig c;
  c.name = text;
  c.hidden = size("hidden", 0);
  c.ffn = size("intermediate", 0);
  c.heads = size("heads", 0);
  c.kv_heads = size("kv_heads", c.heads);
  c.layers = size("layers", 1);
  require(c.heads % c.kv_heads == 0, "--model kv_heads: got {}, expected a divisor of heads, {}",
          c.kv_heads, c.heads);
  require(values.contains("head_dim") || c.hidden % c.heads == 0,
          "--model heads: got {}, expected a divisor of hidden, {}, unless head_dim is given",
          c.heads, c.hidden);
  c.head_dim = size("head_dim", std::max(1, c.hidden / c.heads));
  require(std::int64_t{c.heads} * c.head_dim <= kMostOfASize,
          "--model head_dim: {} heads of {} are more than {} features", c.heads, c.head_dim,
          kMostOfASize);
  const auto activation = values.find("activation");
  c.activation =
      activation == values.end() ? Activation::swiglu : activation_of(activation->second);
  c.gated = c.activation == Activation::swiglu;
  if (c.gated) c.activation = Activation::silu;  // as configs of gated models have it
  c.dtype = Problem{}.dtype;                     // as of sizes without a model
  return c;
}

std::string model_help() {
  const auto models = fmt::format("Models: {}.", fmt::join(model::known_models(), ", "));
  const auto mixtures = fmt::format("Mixtures of experts, for ag_moe, moe_rs and moe_ar: {}.",
                                    fmt::join(model::known_mixtures(), ", "));
  return filled(models, kColumns, 8) + "\n" + filled(mixtures, kColumns, 8) +
         fmt::format(R"(
Or sizes: --model hidden=N,intermediate=N,heads=N and, where they differ, kv_heads=N (heads),
  head_dim=N (hidden / heads), layers=N (1), activation={} (swiglu)
)",
                     names_of_activations());
}

}  // namespace tilelace::cli
