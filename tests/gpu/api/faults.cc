// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "api/checks.h"

namespace tilelace::gpu_test {
namespace {

constexpr double kBoundS = 3;

double now_s() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

Problem some_problem(int ranks) { return problem_of(ranks, 512, {512}, 1024); }

/// The first rank does not come: the others get a timeout in time, and know nothing but refusals
/// from then on; their GPUs stay usable.
Finding check_absent(Member& member, const PlanOptions& options) {
  Tensors t(member, some_problem(member.ranks()), true);
  const std::array list{t.preparation(options)};
  member.comm->prepare(list);
  t.fill(1);
  if (member.rank() == 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(3 * kBoundS));
    return {};
  }
  ag_gemm(*member.comm, t.args(), options);
  const double begin = now_s();
  const auto e = thrown([&] { member.comm->synchronize(member.stream); });
  const double took = now_s() - begin;
  if (!e || (e->kind() != ErrorKind::timeout && e->kind() != ErrorKind::peer))
    return fmt::format("got {}, expected a timeout", e ? e->what() : "no error");
  if (took > 2 * kBoundS) return fmt::format("got it after {:.1f} s, expected {:g}", took, kBoundS);
  if (const Finding f = t.check_untouched(); !f.empty()) return f;
  const auto again = thrown([&] { ag_gemm(*member.comm, t.args(), options); });
  if (!again || std::string(again->what()).find("refuses calls") == std::string::npos)
    return fmt::format("a call after it: got {}, expected to be refused",
                       again ? again->what() : "no error");
  return {};
}

/// Copies that wait for what never comes.
Finding check_absent_pulled(Member& member) {
  PlanOptions o;
  o.transport = Transport::pull;
  return check_absent(member, o);
}
Finding check_absent_in_ring(Member& member) {
  PlanOptions o;
  o.route = RouteKind::ring;
  return check_absent(member, o);
}

/// NCCL itself would wait for ever.
Finding check_absent_from_nccl(Member& member) {
  PlanOptions o;
  o.transport = Transport::nccl;
  return check_absent(member, o);
}

Finding check_abort(Member& member) {
  Tensors t(member, some_problem(member.ranks()), true);
  const std::array list{t.preparation()};
  member.comm->prepare(list);
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
  const std::array list{t.preparation()};
  member.comm->prepare(list);
  t.fill(1);
  for (int i = 0; i < 50; ++i) ag_gemm(*member.comm, t.args());
  const Communicator gone = std::move(*member.comm);
  return {};
}

Finding check_works(Member& member) {
  Tensors t(member, some_problem(member.ranks()), true);
  const std::array list{t.preparation()};
  member.comm->prepare(list);
  return check_calls(member, t, 3);
}

}  // namespace

std::vector<Check> fault_checks() {
  const auto absent = [](Member& member) { return check_absent(member, {}); };
  std::vector<Check> all{
      {"a rank that does not come", kBoundS, true, absent, false},
      {"calls after it", 20, false, check_works, false},
      {"a rank that nobody can pull from", kBoundS, true, check_absent_pulled, false},
      {"calls after pulls", 20, false, check_works, false},
      {"a ring that is cut", kBoundS, true, check_absent_in_ring, false},
      {"calls after the ring", 20, false, check_works, false},
      {"abort", 20, true, check_abort, false},
      {"calls after abort", 20, false, check_works, false},
      {"leaving with calls under way", 20, false, check_leaving, false},
      {"calls after leaving", 20, false, check_works, false}};
  if (!nccl_obstacle().empty()) return all;  // nccl_checks says so
  all.push_back(
      {"a rank that does not come to NCCL", kBoundS, true, check_absent_from_nccl, false});
  all.push_back({"calls after NCCL", 20, false, check_works, false});
  return all;
}

}  // namespace tilelace::gpu_test
