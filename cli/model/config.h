// SPDX-License-Identifier: Apache-2.0
// A transformer's sizes, read from a Hugging Face config.json.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "tilelace/dtype.h"
#include "tilelace/plan.h"

namespace tilelace::model {

struct ModelConfig {
  std::string name;    ///< the file's stem, or its folder's name for a config.json
  std::string family;  ///< llama, mistral, qwen2, qwen3, gpt2, gpt_neox or bert
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int ffn = 0;
  DType dtype = kAccumulator;
  bool gated = false;  ///< the MLP multiplies silu(gate) with up
  Activation activation = Activation::none;
  bool qkv_bias = false;
  bool out_bias = false;
  bool mlp_bias = false;

  bool operator==(const ModelConfig&) const = default;
};

/// Reads a config.json (at most 1 MiB). Errors: usage, naming the file and the field, if the file
/// cannot be read, is not JSON, is of an unknown family, or has impossible sizes.
ModelConfig read_config(const std::filesystem::path& file);

/// The config's file. `name_or_path` is a name of known_models(), a file, or a folder with a
/// config.json. A known name is preferred to a file of the same name (write ./NAME for the file).
std::filesystem::path find_model(const std::string& name_or_path);

/// Names of the configs that come with Tilelace, sorted.
std::vector<std::string> known_models();

}  // namespace tilelace::model
