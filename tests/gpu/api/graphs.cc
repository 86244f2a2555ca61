// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <memory>
#include <random>

#include "api/checks.h"
#include "api/graph.h"

namespace tilelace::gpu_test {
namespace {

/// Two graphs, of the fused and of the unfused call, and eager calls between their replays.
Finding check_replays(Member& member) {
  Problem p = problem_of(member.ranks(), 1500, {768}, 1024);
  p.return_gathered = true;
  Tensors one(member, p, true), two(member, p, true);
  one.prepare({{}, path_of(Path::unfused)});
  const auto both = [&](const PlanOptions& o) {
    ag_gemm(*member.comm, one.args(), o);
    ag_gemm(*member.comm, two.args(), o);
  };
  const Graph fused(member, [&] { both({}); });
  const Graph after(member, [&] { both(path_of(Path::unfused)); });
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
  t.prepare();
  const Graph graph(member, [&] {
    for (int i = 0; i < 4; ++i) ag_gemm(*member.comm, t.args());
  });
  t.fill(5);
  for (int i = 0; i < 500; ++i) graph.replay();
  member.comm->synchronize(member.stream);
  return t.check();
}

/// Graphs of one call and of three, captured after any number of calls, in any order with eager
/// calls.
Finding check_odd(Member& member) {
  const Problem p = problem_of(member.ranks(), 700, {256}, 512);
  Tensors t(member, p, true), other(member, p, true);
  t.prepare();
  const auto call = [&](int times) {
    for (int i = 1; i < times; ++i) ag_gemm(*member.comm, other.args());
    ag_gemm(*member.comm, t.args());
  };
  t.fill(1);
  other.fill(2);
  call(1);
  const Graph one(member, [&] { call(1); });
  const Graph three(member, [&] { call(3); });
  std::mt19937 order(7);  // the same on every rank
  for (std::uint64_t round = 1; round <= 60; ++round) {
    t.fill(round);
    for (auto steps = 1 + order() % 4; steps > 0; --steps) {
      const auto way = order() % 4;
      if (way == 0) one.replay();
      if (way == 1) three.replay();
      if (way > 1) call(static_cast<int>(way) - 1);
    }
    member.comm->synchronize(member.stream);
    if (const Finding f = t.check(); !f.empty()) return fmt::format("round {}: {}", round, f);
  }
  return {};
}

/// Graphs go on with what they were captured with, whatever its count then was.
Finding check_prepared_again(Member& member) {
  const Problem p = problem_of(member.ranks(), 256, {256}, 512);
  const Problem larger = problem_of(member.ranks(), 1024, {256}, 512);
  Tensors t(member, p, true), eager(member, larger, true);
  const std::array list{t.preparation()}, next{eager.preparation()};
  member.comm->prepare(list);
  const Graph graph(member, [&] { ag_gemm(*member.comm, t.args()); });
  t.fill(1);
  ag_gemm(*member.comm, t.args());
  member.comm->synchronize(member.stream);
  member.comm->prepare(next);
  for (std::uint64_t round = 1; round <= 10; ++round) {
    t.fill(round);
    eager.fill(round);
    graph.replay();
    ag_gemm(*member.comm, eager.args());
    member.comm->synchronize(member.stream);
    for (const Tensors* each : {&t, &eager})
      if (const Finding f = each->check(); !f.empty()) return fmt::format("round {}: {}", round, f);
  }
  return {};
}

Finding check_synchronize_in_capture(Member& member) {
  const Problem p = problem_of(member.ranks(), 256, {256}, 512);
  Tensors t(member, p, true);
  t.prepare();
  return expect_error("synchronize in a capture", ErrorKind::usage, "being captured", [&] {
    const Graph graph(member, [&] { member.comm->synchronize(member.stream); });
  });
}

/// A stream of the caller's is being captured: calls in another one go on, and the default one,
/// which would be part of the capture, is refused.
Finding check_beside_capture(Member& member) {
  Tensors t(member, problem_of(member.ranks(), 256, {256}, 512), true);
  t.prepare();
  t.fill(1);
  cudaStream_t captured = nullptr;
  cudaGraph_t graph = nullptr;
  cuda::check(cudaStreamCreate(&captured), "a stream");
  cuda::check(cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal), "capture");
  Finding finding;
  try {
    ag_gemm(*member.comm, t.args());
    member.comm->synchronize(member.stream);
    AgGemmArgs args = t.args();
    args.stream = nullptr;
    finding = expect_error("the default stream", ErrorKind::usage, "default stream cannot be used",
                           [&] { ag_gemm(*member.comm, args); });
  } catch (const Error& e) {
    finding = e.what();
  }
  const cudaError_t ended = cudaStreamEndCapture(captured, &graph);
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaStreamDestroy(captured);
  if (finding.empty() && ended != cudaSuccess) finding = "the capture was broken";
  if (finding.empty()) finding = t.check();
  if (!finding.empty()) return finding;
  // The refused call is one of all ranks.
  t.prepare();
  t.fill(2);
  ag_gemm(*member.comm, t.args());
  member.comm->synchronize(member.stream);
  return t.check();
}

}  // namespace

std::vector<Check> graph_checks() {
  return {{"graphs and eager calls in turns", 20, false, check_replays, true},
          {"500 replays of 4 calls", 20, false, check_many_replays, true},
          {"odd graphs and eager calls in any order", 20, false, check_odd, true},
          {"graphs after other problems were prepared", 20, false, check_prepared_again, true},
          {"synchronize in a capture is refused", 20, false, check_synchronize_in_capture, true},
          {"calls beside another stream's capture", 20, false, check_beside_capture, true}};
}

}  // namespace tilelace::gpu_test
