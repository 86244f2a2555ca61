// SPDX-License-Identifier: Apache-2.0
// Which layers of experts a command runs, plans, tunes or simulates, and with which routings.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpu.h"
#include "tilelace/moe.h"

namespace tilelace::cli {

/// How tokens choose experts. `uniform`: all experts are equally likely; `zipf`: expert i has
/// weight 1 / (i + 8); `hot`: expert 0 is every token's first choice. No token has an expert twice.
enum class RoutingKind : std::uint8_t { uniform, zipf, hot };
std::string_view name_of(RoutingKind);
/// Parses a list such as "uniform,zipf". Errors: usage (an unknown name).
std::vector<RoutingKind> parse_routings(std::string_view text);

struct MoeWork {
  std::vector<std::string> ops;  ///< moe_rs: tokens split by rank; moe_ar: all tokens on every rank
  std::vector<RoutingKind> routings;
  std::vector<std::int64_t> sizes;  ///< numbers of tokens, over all ranks
  int ranks = 1;
  Device device = Device::cpu;
  GpuFacts gpus;      ///< GPU ranks only
  std::string model;  ///< empty: the layer is given by its sizes
  MoeLayer layer;     ///< a rank's layer; its m is the largest size
  bool biased = false;
  bool check = true;
  int iterations = 0;  ///< samples; 0: 10 on GPUs, as many as fit a time limit on CPUs
  int warmup = 2;
};

/// Whether this comma-separated list has ops of mixtures of experts. `halves`: the command also
/// takes ag_moe, which is only a layer's first half. Errors: usage (other ops in the same list; a
/// name such as "moe_x" that is no op of the command).
bool are_moe(std::string_view command, std::string_view ops, bool halves = false);
bool is_first_half(std::string_view op);

/// Whether calls of this op begin with all tokens on every rank.
bool is_replicated(std::string_view op);

/// The layer as text: "4 ranks, olmoe-1b-7b, bf16, hidden 2048, ..."
std::string layer_text(const MoeWork&);

/// Expert ids and router weights, each [m, top_k]; equal on every rank. A token's weights sum to 1.
struct Routed {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};
Routed make_routing(RoutingKind, const MoeLayer&, std::int64_t m);
/// The number of rows of each expert, as schedule::fill_moe_map counts these ids.
std::vector<int> expert_rows(const Routed&, const MoeLayer&, std::int64_t m);
/// The number of rows of the expert with the most rows, divided by the mean.
double imbalance(const std::vector<int>& expert_rows);

}  // namespace tilelace::cli
