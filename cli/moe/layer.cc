// SPDX-License-Identifier: Apache-2.0
#include "moe/layer.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/check.h"
#include "model/experts.h"
#include "options.h"
#include "sizes.h"

namespace tilelace::cli {
namespace {

ExpertActivation parse_activation(const std::string& text) {
  for (const ExpertActivationRow& row : kExpertActivations)
    if (row.name == text) return row.activation;
  std::vector<std::string_view> names;
  for (const ExpertActivationRow& row : kExpertActivations) names.push_back(row.name);
  raise(ErrorKind::usage, "--activation: got \"{}\", expected one of {}", text,
        fmt::join(names, ", "));
}

/// Sets the layer of a rank of work.ranks, but for m.
void set_layer(std::string_view command, const MoeSizes& sizes, const MoeRequest& request,
               MoeWork& work) {
  MoeLayer& l = work.layer;
  std::int64_t inner = 0;
  if (!sizes.model.empty()) {
    require(sizes.n.empty() && sizes.k == 0 && request.experts == 0 && request.top_k == 0,
            "{}: --model has the sizes: leave out --n, --k, --experts and --top-k", command);
    const auto c = model::read_experts(model::find_mixture(sizes.model));
    work.model = c.name, work.biased = c.biased;
    l.hidden = c.hidden, l.experts = c.experts, l.top_k = c.top_k;
    l.activation = c.activation, l.dtype = c.dtype;
    inner = c.inner;
  } else {
    require(sizes.n.size() == 1 && sizes.k > 0 && request.experts > 0 && request.top_k > 0,
            "{}: {} needs --model, or --n (inner width), --k (hidden width), --experts and "
            "--top-k",
            command, sizes.ops);
    l.hidden = sizes.k, l.experts = request.experts, l.top_k = request.top_k;
    l.activation = parse_activation(request.activation);
    l.dtype = kDTypes[0].type;
    inner = sizes.n[0];
  }
  require(l.top_k <= l.experts, "--top-k: got {}, expected at most the {} experts", l.top_k,
          l.experts);
  require(inner % (8 * work.ranks) == 0,
          "{}: inner width: got {}, expected a multiple of 8 x {} ranks", command, inner,
          work.ranks);
  l.inner = inner / work.ranks;
}

}  // namespace

MoeWork layer_work(std::string_view command, const MoeSizes& sizes, const MoeRequest& request,
                   const std::string& m, const std::string& dtype, int ranks) {
  MoeWork work;
  work.ops = split_list(fmt::format("{}: op", command), sizes.ops);
  work.routings = parse_routings(request.routings);
  require(!m.empty(), "{}: {} needs --m", command, sizes.ops);
  work.sizes = parse_sizes("--m", m);
  work.ranks = ranks;
  set_layer(command, sizes, request, work);
  if (!dtype.empty()) work.layer.dtype = parse_dtype(dtype);
  work.layer.m = *std::ranges::max_element(work.sizes);
  moe_map_words(work.layer, work.layer.m);  // throws where the library would
  return work;
}

void refuse_options(const CLI::App& command, std::span<const char* const> names,
                    std::string_view ops) {
  for (const char* name : names)
    require(command.get_option_no_throw(name) == nullptr || command.count(name) == 0,
            "{}: {} is for other ops, not for {}", command.get_name(), name, ops);
}

void add_expert_options(CLI::App& command, MoeRequest& request) {
  command
      .add_option("--experts", request.experts,
                  "Mixtures of experts: how many; --n is the inner width, --k the hidden width")
      ->check(whole_between(1, 1 << 20));
  command.add_option("--top-k", request.top_k, "Mixtures of experts: choices of a token")
      ->check(whole_between(1, 1 << 20));
  command
      .add_option("--activation", request.activation,
                  "Mixtures of experts: of the first product, without a model")
      ->capture_default_str();
}

void add_routing_option(CLI::App& command, MoeRequest& request) {
  command
      .add_option("--routing", request.routings,
                  "Mixtures of experts: a list of uniform, zipf, hot")
      ->capture_default_str();
}

void refuse_moe_options(std::string_view command, const CLI::App& app) {
  for (const char* name : {"--experts", "--top-k", "--routing", "--activation"})
    require(app.get_option_no_throw(name) == nullptr || app.count(name) == 0,
            "{}: {} is for mixtures of experts alone", command, name);
}

std::string moe_help() {
  return "moe_rs (tokens split over the ranks), moe_ar (tokens on all ranks)";
}

}  // namespace tilelace::cli
