// SPDX-License-Identifier: Apache-2.0
// From a model's name, file or folder to its products.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "job.h"

namespace tilelace::cli {

struct ModelRequest {
  std::string model;    ///< a known name, a config.json, or a folder with one
  std::string weights;  ///< a .safetensors file; empty: the folder's, else random
  std::string layer;    ///< a number, "all", or empty: all of real weights, else 0
  std::string ops;      ///< --op
};

/// Fills model, config, dtype (the config's), source and jobs.
/// Errors: usage, when something cannot be read or nothing is left to run.
void load_model(const ModelRequest& request, int ranks, Workload& work);

/// Either a model's products, or one of each op by n, of each weight, and k of the unsharded
/// product. Errors: usage (as load_model and require_sizes; `command` begins the latter's).
void load_products(std::string_view command, const ModelRequest& request,
                   const std::vector<std::int64_t>& n, std::int64_t k, int ranks, Workload& work);
/// Error: usage, where there is not either a model or both n and k.
void require_sizes(std::string_view command, const ModelRequest& request,
                   const std::vector<std::int64_t>& n, std::int64_t k);

}  // namespace tilelace::cli
