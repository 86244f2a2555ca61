// SPDX-License-Identifier: Apache-2.0
// A communicator that has a share of its devices: transports whose copies need multiprocessors.
#include <fmt/format.h>

#include "api/checks.h"
#include "api/graph.h"

namespace tilelace::gpu_test {
namespace {

constexpr int kShare = 60, kFew = 7;  // multiprocessors

struct Way {
  const char* name;
  PlanOptions options;
};

std::vector<Way> ways() {
  Way pull{"pull", {}}, ring{"ring", {}}, nccl{"nccl", {}};
  pull.options.transport = Transport::pull;
  ring.options.route = RouteKind::ring;
  nccl.options.transport = Transport::nccl;
  std::vector<Way> all{pull, ring};
  if (nccl_obstacle().empty()) all.push_back(nccl);
  return all;
}

Finding check_way(Member& member, const Way& way) {
  Tensors t(member, problem_of(member.ranks(), 1300, {768}, 1024), true);
  PlanOptions unfused = way.options;
  unfused.path = Path::unfused;
  PlanOptions fused = way.options;
  fused.path = Path::fused;
  t.prepare({fused, unfused});
  if (const Finding f = t.calls(5, fused); !f.empty()) return fmt::format("{}, {}", way.name, f);
  if (const Finding f = expect_error(
          "a fused call in a capture", ErrorKind::usage, "use path unfused",
          [&] { const Graph graph(member, [&] { ag_gemm(*member.comm, t.args(), fused); }); });
      !f.empty())
    return fmt::format("{}: {}", way.name, f);
  const Graph graph(member, [&] { ag_gemm(*member.comm, t.args(), unfused); });
  for (std::uint64_t round = 6; round <= 16; ++round) {
    t.fill(round);
    graph.replay();
    member.comm->synchronize(member.stream);
    if (const Finding f = t.check(); !f.empty())
      return fmt::format("{}, unfused, round {}: {}", way.name, round, f);
  }
  return {};
}

Finding check_ways(Member& member) {
  for (const Way& way : ways())
    if (const Finding f = check_way(member, way); !f.empty()) return f;
  return {};
}

/// So few that no cluster of eight has a place; an odd number.
Finding check_few(Member& member) {
  Tensors t(member, problem_of(member.ranks(), 300, {512}, 512), true);
  t.prepare();
  return t.calls(3);
}

}  // namespace

std::vector<Check> share_checks() {
  Check ways{"a share: pull, ring, nccl if there", 20, true, check_ways};
  ways.max_workers = kShare;
  Check few{"a share of seven multiprocessors", 20, false, check_few};
  few.max_workers = kFew;
  return {ways, few};
}

}  // namespace tilelace::gpu_test
