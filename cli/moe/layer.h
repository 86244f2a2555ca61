// SPDX-License-Identifier: Apache-2.0
// The layer of experts that the user asks a command for: a model's, or one of given sizes.
#pragma once
#include <CLI/App.hpp>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "moe/work.h"

namespace tilelace::cli {

/// Options of commands that apply only to mixtures of experts.
struct MoeRequest {
  std::string routings = "uniform", activation = "swiglu";
  std::int64_t experts = 0, top_k = 0;
};

/// Adds --experts, --top-k and --activation, which describe a layer without a model.
void add_expert_options(CLI::App& command, MoeRequest& request);
void add_routing_option(CLI::App& command, MoeRequest& request);
/// For other ops. Throws a usage error if the user gives an option of the two functions above.
void refuse_moe_options(std::string_view command, const CLI::App& app);
/// For help texts: the ops, and whether each op splits tokens over the ranks.
std::string moe_help();

/// Options that also apply to products. For layers, n is the inner width, k the hidden width.
struct MoeSizes {
  std::string ops, model;
  std::vector<std::int64_t> n;
  std::int64_t k = 0;
};

/// The ops, routings, numbers of tokens and the rank's layer that a command's options ask for. If
/// `dtype` is empty, the layer has the model's dtype, or bf16 without a model. Errors: usage.
MoeWork layer_work(std::string_view command, const MoeSizes& sizes, const MoeRequest& request,
                   const std::string& m, const std::string& dtype, int ranks);
/// Throws a usage error if an option in `names` was given. These options are not for `ops`.
void refuse_options(const CLI::App& command, std::span<const char* const> names,
                    std::string_view ops);

}  // namespace tilelace::cli
