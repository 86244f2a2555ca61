// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <memory>

#include "api/checks.h"
#include "api/graph.h"

namespace tilelace::gpu_test {
namespace {

PlanOptions unfused() {
  PlanOptions o;
  o.path = Path::unfused;
  return o;
}

/// Two graphs, of the fused and of the unfused call, and eager calls between their replays.
Finding check_replays(Member& member) {
  Problem p = problem_of(member.ranks(), 1500, {768}, 1024);
  p.return_gathered = true;
  Tensors one(member, p, true), two(member, p, true);
  const std::array list{one.preparation(), one.preparation(unfused())};
  member.comm->prepare(list);
  const auto both = [&](const PlanOptions& o) {
    ag_gemm(*member.comm, one.args(), o);
    ag_gemm(*member.comm, two.args(), o);
  };
  const Graph fused(member, [&] { both({}); });
  const Graph after(member, [&] { both(unfused()); });
  for (std::uint64_t round = 1; round <= 30; ++round) {
    one.fill(2 * round);
    two.fill(2 * round + 1);
    if (round % 3 == 0) {
      after.replay();
    } else if (round % 3 == 1) {
      fused.replay();
    } else {
      both({});
    }
    member.comm->synchronize(member.stream);
    for (const Tensors* t : {&one, &two})
      if (const Finding f = t->check(); !f.empty()) return fmt::format("round {}: {}", round, f);
  }
  return {};
}

/// Replays back to back, results of the last one.
Finding check_many_replays(Member& member) {
  const Problem p = problem_of(member.ranks(), 512, {512}, 1024);
  Tensors t(member, p, true);
  const std::array list{t.preparation()};
  member.comm->prepare(list);
  const Graph graph(member, [&] {
    for (int i = 0; i < 4; ++i) ag_gemm(*member.comm, t.args());
  });
  t.fill(5);
  for (int i = 0; i < 500; ++i) graph.replay();
  member.comm->synchronize(member.stream);
  return t.check();
}

Finding check_odd(Member& member) {
  const Problem p = problem_of(member.ranks(), 256, {256}, 512);
  Tensors t(member, p, true);
  const std::array list{t.preparation()};
  member.comm->prepare(list);
  t.fill(1);
  ag_gemm(*member.comm, t.args());
  Finding f = expect_error("a capture after one call", ErrorKind::usage, "after 1 calls", [&] {
    const Graph graph(member, [&] { ag_gemm(*member.comm, t.args()); });
  });
  if (!f.empty()) return f;
  ag_gemm(*member.comm, t.args());
  {
    const Graph graph(member, [&] { ag_gemm(*member.comm, t.args()); });
  }
  f = expect_error("a call after an odd graph", ErrorKind::usage, "odd number",
                   [&] { ag_gemm(*member.comm, t.args()); });
  if (!f.empty()) return f;
  member.comm->synchronize(member.stream);
  member.comm->prepare(list);
  ag_gemm(*member.comm, t.args());
  member.comm->synchronize(member.stream);
  return t.check();
}

Finding check_synchronize_in_capture(Member& member) {
  const Problem p = problem_of(member.ranks(), 256, {256}, 512);
  Tensors t(member, p, true);
  const std::array list{t.preparation()};
  member.comm->prepare(list);
  return expect_error("synchronize in a capture", ErrorKind::usage, "being captured", [&] {
    const Graph graph(member, [&] { member.comm->synchronize(member.stream); });
  });
}

}  // namespace

std::vector<Check> graph_checks() {
  return {{"graphs and eager calls in turns", 20, false, check_replays, true},
          {"500 replays of 4 calls", 20, false, check_many_replays, true},
          {"odd graphs are refused", 20, false, check_odd, true},
          {"synchronize in a capture is refused", 20, false, check_synchronize_in_capture, true}};
}

}  // namespace tilelace::gpu_test
