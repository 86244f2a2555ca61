// SPDX-License-Identifier: Apache-2.0
#include "model_jobs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "core/check.h"
#include "model_sizes.h"

namespace tilelace::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kWeightSeed = 1;

model::WeightSource source_of(const ModelRequest& request) {
  fs::path file = request.weights;
  if (file.empty()) {
    std::error_code error;
    if (fs::is_directory(request.model, error)) {
      if (const auto found = model::find_checkpoint(request.model)) file = *found;
    }
  }
  if (file.empty()) return model::WeightSource::random(kWeightSeed);
  return model::WeightSource::checkpoint(std::make_shared<const model::Checkpoint>(file));
}

std::vector<int> layers_of(const ModelRequest& request, const Workload& work) {
  const int count = work.config.layers;
  std::vector<int> layers;
  const bool all =
      request.layer == "all" || (request.layer.empty() && work.source.file() != nullptr);
  if (all) {
    for (int l = 0; l < count; ++l) layers.push_back(l);
  } else {
    layers.push_back(request.layer.empty()
                         ? 0
                         : static_cast<int>(parse_number("--layer", request.layer, 0, count - 1)));
  }
  return layers;
}

}  // namespace

void load_model(const ModelRequest& request, int ranks, Workload& work) {
  const bool by_hand = are_model_sizes(request.model);
  require(!by_hand || request.weights.empty(),
          "--weights: sizes given by hand have no names of tensors: give --model a config.json or "
          "its folder");
  work.config = by_hand ? config_of_sizes(request.model)
                        : model::read_config(model::find_model(request.model));
  work.model = work.config.name;
  work.dtype = work.config.dtype;
  work.source = source_of(request);
  const auto ops = parse_ops(request.ops);
  const auto layers = layers_of(request, work);
  work.several_layers = layers.size() > 1;
  for (const int layer : layers) {
    for (const auto& gemm : model::layer_gemms(work.config, ranks)) {
      if (std::find(ops.begin(), ops.end(), gemm.op) != ops.end())
        work.jobs.push_back({gemm, layer});
    }
  }
}

void require_sizes(std::string_view command, const ModelRequest& request,
                   const std::vector<std::int64_t>& n, std::int64_t k) {
  require(request.model.empty() != (n.empty() && k == 0) && n.empty() == (k == 0), "{}: {}",
          command,
          request.model.empty() ? "sizes are missing: give --model, or --n and --k"
                                : "--model has sizes: leave out --n and --k");
}

void load_products(std::string_view command, const ModelRequest& request,
                   const std::vector<std::int64_t>& n, std::int64_t k, int ranks, Workload& work) {
  require_sizes(command, request, n, k);
  if (!request.model.empty()) return load_model(request, ranks, work);
  work.config.layers = 1;
  for (const Op op : parse_ops(request.ops)) work.jobs.push_back({plain_gemm(op, n, k, ranks), 0});
}

}  // namespace tilelace::cli
