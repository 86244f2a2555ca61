// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

#include "api/bench.h"
#include "api/checks.h"
#include "api/sums.h"

namespace tilelace::gpu_test {
namespace {

constexpr double kBoundS = 3;

double now_s() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

Problem some_problem(int ranks) { return problem_of(ranks, 512, {512}, 1024); }

/// Also where copies wait for what never comes; NCCL itself would wait for ever.
Body absent(const PlanOptions& options) {
  return [options](Member& member) {
    Tensors t(member, some_problem(member.ranks()), true);
    return misses_a_rank(member, t, kBoundS, options);
  };
}

Finding check_absent_from_sum(Member& member) {
  SumTensors t(member, sum_problem_of(Op::gemm_ar, member.ranks(), 600, 264, 512), true);
  return misses_a_rank(member, t, kBoundS);
}

Finding check_abort(Member& member) {
  Tensors t(member, some_problem(member.ranks()), true);
  t.prepare();
  t.fill(1);
  if (member.rank() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    member.comm->abort();
    return {};
  }
  ag_gemm(*member.comm, t.args());
  const double begin = now_s();
  const auto e = thrown([&] { member.comm->synchronize(member.stream); });
  if (!e || e->kind() != ErrorKind::peer)
    return fmt::format("got {}, expected a peer error", e ? e->what() : "no error");
  const double took = now_s() - begin;
  if (took > 1.5) return fmt::format("got it after {:.1f} s, expected 0.2", took);
  return t.check_untouched();
}

/// A communicator goes while its calls run; another one works at once.
Finding check_leaving(Member& member) {
  Tensors t(member, some_problem(member.ranks()), true);
  t.prepare();
  t.fill(1);
  for (int i = 0; i < 50; ++i) ag_gemm(*member.comm, t.args());
  const Communicator gone = std::move(*member.comm);
  return {};
}

Finding check_works(Member& member) {
  Tensors t(member, some_problem(member.ranks()), true);
  t.prepare();
  return t.calls(3);
}

}  // namespace

std::vector<Check> fault_checks() {
  PlanOptions pulled, in_ring, by_nccl;
  pulled.transport = Transport::pull;
  in_ring.route = RouteKind::ring;
  by_nccl.transport = Transport::nccl;
  std::vector<Check> all{
      {"a rank that does not come", kBoundS, true, absent({}), false},
      {"a rank that does not come to a sum", kBoundS, true, check_absent_from_sum, false},
      {"calls after it", 20, false, check_works, false},
      {"a rank that nobody can pull from", kBoundS, true, absent(pulled), false},
      {"calls after pulls", 20, false, check_works, false},
      {"a ring that is cut", kBoundS, true, absent(in_ring), false},
      {"calls after the ring", 20, false, check_works, false},
      {"abort", 20, true, check_abort, false},
      {"calls after abort", 20, false, check_works, false},
      {"leaving with calls under way", 20, false, check_leaving, false},
      {"calls after leaving", 20, false, check_works, false}};
  if (!nccl_obstacle().empty()) return all;  // nccl_checks says so
  all.push_back({"a rank that does not come to NCCL", kBoundS, true, absent(by_nccl), false});
  all.push_back({"calls after NCCL", 20, false, check_works, false});
  return all;
}

}  // namespace tilelace::gpu_test
