// SPDX-License-Identifier: Apache-2.0
// Finds the products of a model from its name, file or folder.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "job.h"

namespace tilelace::cli {

struct ModelRequest {
  std::string model;    ///< a known name, a config.json, or a folder with one
  std::string weights;  ///< a .safetensors file; empty: the model folder's file, or random values
  std::string layer;    ///< a number or "all"; empty: all if weights are from a file, else 0
  std::string ops;      ///< value of --op
};

/// Fills the workload's model, config, dtype (the config's), source and jobs. Errors: usage, if a
/// file cannot be read or there is no product to run.
void load_model(const ModelRequest& request, int ranks, Workload& work);

/// Fills the jobs: either a model's products, or one product of each op with the given n (of each
/// weight) and k, which are unsharded. Errors: usage (those of load_model, and those of
/// require_sizes, whose texts begin with `command`).
void load_products(std::string_view command, const ModelRequest& request,
                   const std::vector<std::int64_t>& n, std::int64_t k, int ranks, Workload& work);
/// Throws a usage error, which begins with `command`, unless a model or both n and k are given.
void require_sizes(std::string_view command, const ModelRequest& request,
                   const std::vector<std::int64_t>& n, std::int64_t k);

}  // namespace tilelace::cli
