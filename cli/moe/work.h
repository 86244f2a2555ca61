// SPDX-License-Identifier: Apache-2.0
// What a command is asked about mixtures of experts (bench, tune, simulate), and the routings.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpu.h"
#include "tilelace/moe.h"

namespace tilelace::cli {

/// Where tokens go: `uniform`, all experts alike; `zipf`, the i-th in proportion to 1 / (i + 8);
/// `hot`, one expert is every token's first choice. A token's choices are different experts.
enum class RoutingKind : std::uint8_t { uniform, zipf, hot };
std::string_view name_of(RoutingKind);
/// "uniform,zipf". Errors: usage (another name).
std::vector<RoutingKind> parse_routings(std::string_view text);

struct MoeWork {
  std::vector<std::string> ops;  ///< moe_rs: each rank has its own tokens; moe_ar: all have all
  std::vector<RoutingKind> routings;
  std::vector<std::int64_t> sizes;  ///< tokens of all ranks
  int ranks = 1;
  Device device = Device::cpu;
  GpuFacts gpus;      ///< where ranks have GPUs
  std::string model;  ///< empty: the layer is given by its sizes
  MoeLayer layer;     ///< of a rank; m: the largest size
  bool biased = false;
  bool check = true;
  int iterations = 0;  ///< 0: as many as fit a row's seconds; GPUs: a fixed number
  int warmup = 2;
};

/// Whether these names, between commas, are ops of mixtures of experts that `command` takes.
/// With `halves` it takes a first half alone, too. Errors: usage (only some are, or a name is none
/// but looks like one).
bool are_moe(std::string_view command, std::string_view ops, bool halves = false);
bool is_first_half(std::string_view op);

/// Whether an op's tokens are on all ranks.
bool is_replicated(std::string_view op);

/// "4 ranks, olmoe-1b-7b, bf16, hidden 2048, ..."
std::string layer_text(const MoeWork&);

/// Ids [m, top_k] of a routing, and weights that add up to 1 a token; the same on every rank.
struct Routed {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};
Routed make_routing(RoutingKind, const MoeLayer&, std::int64_t m);
/// Rows of each expert, by the map that ranks make of these ids.
std::vector<int> expert_rows(const Routed&, const MoeLayer&, std::int64_t m);
/// Rows of the expert that has most, over the mean.
double imbalance(const std::vector<int>& expert_rows);

}  // namespace tilelace::cli
