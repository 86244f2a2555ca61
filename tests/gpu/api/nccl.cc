// SPDX-License-Identifier: Apache-2.0
// Transport nccl, where NCCL may be used; where not, the error that says why.
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <memory>

#include "api/checks.h"
#include "api/graph.h"

namespace tilelace::gpu_test {
namespace {

PlanOptions by_nccl(Path path) {
  PlanOptions o;
  o.path = path;
  o.transport = Transport::nccl;
  return o;
}

Finding check_refusal(Member& member, const std::string& why) {
  Tensors t(member, problem_of(member.ranks(), 512, {512}, 1024), true);
  const std::array list{t.preparation(by_nccl(Path::fused))};
  return expect_error("prepare without NCCL", ErrorKind::system, why,
                      [&] { member.comm->prepare(list); });
}

/// Shards of many chunks, of one, of none.
Finding check_results(Member& member) {
  for (const std::int64_t m : {1, 777, 2048}) {
    const Problem p = problem_of(member.ranks(), m, {520, 264}, 1024);
    for (const Path path : {Path::fused, Path::unfused}) {
      for (const std::int64_t chunk : {16, 1000}) {
        PlanOptions o = by_nccl(path);
        o.chunk_rows = chunk;
        Tensors t(member, p, true);
        t.prepare({o});
        if (const Finding f = t.calls(5, o); !f.empty())
          return fmt::format("{} chunk {}: {}", name_of(path), chunk, f);
      }
    }
  }
  return {};
}

Finding check_graphs(Member& member) {
  const PlanOptions o = by_nccl(Path::fused);
  Tensors t(member, problem_of(member.ranks(), 1500, {768}, 1024), true);
  t.prepare({o, {}});
  const Graph graph(member, [&] {
    ag_gemm(*member.comm, t.args(), o);
    ag_gemm(*member.comm, t.args());
  });
  for (std::uint64_t round = 1; round <= 30; ++round) {
    t.fill(round);
    graph.replay();
    member.comm->synchronize(member.stream);
    if (const Finding f = t.check(); !f.empty()) return fmt::format("round {}: {}", round, f);
  }
  return {};
}

/// What NCCL does to captured calls otherwise is a wrong result.
Finding check_registered(Member& member) {
  Tensors t(member, problem_of(member.ranks(), 512, {512}, 1024), true);
  t.prepare({by_nccl(Path::fused)});
  return expect_error("nccl with registered buffers in a capture", ErrorKind::usage,
                      "expected 0: set it before the process starts", [&] {
                        const Graph graph(
                            member, [&] { ag_gemm(*member.comm, t.args(), by_nccl(Path::fused)); });
                      });
}

/// A call of it without a preparation: the same error everywhere, and the ranks stay in step.
Finding check_not_prepared(Member& member) {
  Tensors t(member, problem_of(member.ranks(), 512, {512}, 1024), true);
  t.prepare();
  t.fill(1);
  return expect_error("nccl that was not prepared", ErrorKind::usage, "was not prepared",
                      [&] { ag_gemm(*member.comm, t.args(), by_nccl(Path::fused)); });
}

}  // namespace

std::string nccl_obstacle() {
  const char* const multicast = std::getenv("NCCL_NVLS_ENABLE");
  if (multicast == nullptr || std::string(multicast) != "0") return "NCCL_NVLS_ENABLE";
  return dlopen("libnccl.so.2", RTLD_NOW) == nullptr ? "libnccl.so.2" : "";
}

std::vector<Check> nccl_checks() {
  std::vector<Check> all{{"nccl without its preparation", 20, true, check_not_prepared}};
  if (const std::string why = nccl_obstacle(); !why.empty()) {
    all.push_back({"nccl, which is not there: " + why, 20, true,
                   [why](Member& member) { return check_refusal(member, why); }});
    return all;
  }
  all.push_back({"nccl: shapes and chunks", 20, true, check_results});
  const char* const registered = std::getenv("NCCL_GRAPH_REGISTER");
  if (registered != nullptr && std::string(registered) == "0")
    all.push_back({"nccl: graphs", 20, true, check_graphs});
  else
    all.push_back({"nccl: graphs with registered buffers", 20, true, check_registered});
  return all;
}

}  // namespace tilelace::gpu_test
