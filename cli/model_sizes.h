// SPDX-License-Identifier: Apache-2.0
// A model's sizes given by hand, without a config.
#pragma once
#include <string>
#include <string_view>

#include "model/config.h"

namespace tilelace::cli {

/// Whether the value of --model is a list of sizes (KEY=VALUE), not a name, a file or a folder.
bool are_model_sizes(const std::string& model);

/// The config for
/// "hidden=N,intermediate=N,heads=N[,kv_heads=N,head_dim=N,layers=N,activation=NAME]". It has
/// dtype bf16, no biases, and the text as its name. Errors: usage (an unknown key; a size that is
/// missing, given twice or not a divisor).
model::ModelConfig config_of_sizes(std::string_view text);

/// Help on models, broken into lines: "Models: gpt3-175b, ..., or sizes: ...".
std::string model_help();

}  // namespace tilelace::cli
