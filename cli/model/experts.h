// SPDX-License-Identifier: Apache-2.0
// The experts of a model's layer, read from a Hugging Face config.json.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "tilelace/moe.h"

namespace tilelace::model {

struct ExpertsConfig {
  std::string name;    ///< the file's stem, or its folder's name for a config.json
  std::string family;  ///< mixtral, qwen3_moe, olmoe, gpt_oss or deepseek_v3
  int layers = 0;
  int hidden = 0;
  int inner = 0;  ///< width between the two products of one expert
  int experts = 0;
  int top_k = 0;
  int shared = 0;  ///< sum of that width over all shared experts; 0: no shared experts
  ExpertActivation activation{};
  bool biased = false;
  DType dtype = kAccumulator;

  bool operator==(const ExpertsConfig&) const = default;
};

/// Reads a config.json (at most 1 MiB). Errors: usage, naming the file and the field, if the file
/// cannot be read, is not JSON, is of an unknown family, or has impossible sizes.
ExpertsConfig read_experts(const std::filesystem::path& file);

/// Whether find_mixture(name_or_path) would find the config of a mixture of experts.
bool is_mixture(const std::string& name_or_path);

/// The config's file. `name_or_path` is a name of known_mixtures(), a file, or a folder with a
/// config.json. Errors: usage.
std::filesystem::path find_mixture(const std::string& name_or_path);

/// Names of the configs of mixtures of experts that come with Tilelace, sorted.
std::vector<std::string> known_mixtures();

}  // namespace tilelace::model
