// SPDX-License-Identifier: Apache-2.0
// The layer of experts that a command is asked for: a model's, or sizes.
#pragma once
#include <CLI/App.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "moe/work.h"

namespace tilelace::cli {

/// What commands take for mixtures of experts alone.
struct MoeRequest {
  std::string routings = "uniform", activation = "swiglu";
  std::int64_t experts = 0, top_k = 0;
};

/// --experts, --top-k, --activation: of layers without a model.
void add_expert_options(CLI::App& command, MoeRequest& request);
void add_routing_option(CLI::App& command, MoeRequest& request);
/// Throws a usage error where one of them is given to another op.
void refuse_moe_options(std::string_view command, const CLI::App& app);
/// What the ops are, for help.
std::string moe_help();

/// What commands take for products, too: n is the inner width, k the hidden one.
struct MoeSizes {
  std::string ops, model;
  std::vector<std::int64_t> n;
  std::int64_t k = 0;
};

/// What all commands want to know: ops, routings, numbers of tokens, the layer of a rank. Its dtype
/// is the model's where `dtype` is empty. Errors: usage.
MoeWork layer_work(std::string_view command, const MoeSizes& sizes, const MoeRequest& request,
                   const std::string& m, const std::string& dtype, int ranks);
/// Throws a usage error where one of these options, which the command may have, is given.
void refuse_options(const CLI::App& command, std::span<const char* const> names,
                    std::string_view ops);

}  // namespace tilelace::cli
