// SPDX-License-Identifier: Apache-2.0
// A model's sizes by hand, where there is no config.
#pragma once
#include <string>
#include <string_view>

#include "model/config.h"

namespace tilelace::cli {

/// Whether --model has sizes (KEY=VALUE), not a name, a file or a folder.
bool are_model_sizes(const std::string& model);

/// Of "hidden=N,intermediate=N,heads=N[,kv_heads=N,head_dim=N,layers=N,activation=NAME]": bf16, no
/// biases, named by the text. Errors: usage (another key, a size that is missing, twice or no
/// divisor).
model::ModelConfig config_of_sizes(std::string_view text);

/// "Models: gpt3-175b, ..., or sizes: ...", filled.
std::string model_help();

}  // namespace tilelace::cli
