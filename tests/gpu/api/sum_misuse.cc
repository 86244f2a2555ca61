// SPDX-License-Identifier: Apache-2.0
// Wrong calls of gemm_rs and gemm_ar, each followed by one that must be right; ranks that disagree
// or do not come.
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "api/checks.h"
#include "api/sums.h"

namespace tilelace::gpu_test {
namespace {

constexpr std::int64_t kRows = 600, kCols = 264, kDepth = 512;
constexpr double kBoundS = 3;

struct Bench {
  Bench(Member& m, Op op)
      : member(m),
        problem(sum_problem_of(op, m.ranks(), kRows, kCols, kDepth)),
        tensors(m, problem, true) {
    const std::array list{tensors.preparation()};
    m.comm->prepare(list);
  }
  /// A call must be right.
  Finding works(const std::string& after) {
    tensors.fill(++seed);
    tensors.call();
    member.comm->synchronize(member.stream);
    const Finding f = tensors.check();
    return f.empty() ? f : fmt::format("{} after {}: {}", name_of(problem.op), after, f);
  }
  /// Every rank makes the same wrong call and gets the same error; the ranks stay in step.
  Finding wrong(const std::string& what, const std::string& text,
                const std::function<void(GemmReduceArgs&, PlanOptions&)>& spoil) {
    GemmReduceArgs args = tensors.args();
    PlanOptions options;
    spoil(args, options);
    const Finding f = expect_error(fmt::format("{}, {}", name_of(problem.op), what),
                                   ErrorKind::usage, text, [&] { tensors.call(args, options); });
    return f.empty() ? works(what) : f;
  }

  Member& member;
  Problem problem;
  SumTensors tensors;
  std::uint64_t seed = 0;
};

Finding check_options(Member& member) {
  const auto set = [](auto field, auto value) {
    return [=](GemmReduceArgs&, PlanOptions& o) { o.*field = value; };
  };
  for (const Op op : {Op::gemm_rs, Op::gemm_ar}) {
    Bench b(member, op);
    for (const Finding& f :
         {b.wrong("transport nccl", "expected push, pull or store",
                  set(&PlanOptions::transport, Transport::nccl)),
          b.wrong("partials fp16", "expected the operands' type, bf16, or fp32",
                  set(&PlanOptions::partials, DType::fp16)),
          b.wrong("a tile that is not compiled", "no plan meets", set(&PlanOptions::tile_m, 100))})
      if (!f.empty()) return f;
  }
  Bench scatter(member, Op::gemm_rs);
  for (const Finding& f :
       {scatter.wrong("unfused store", "no plan meets",
                      [](auto&, PlanOptions& o) {
                        o.path = Path::unfused;
                        o.transport = Transport::store;
                      }),
        scatter.wrong("straddle, pulled", "straddle 1",
                      [](auto&, PlanOptions& o) {
                        o.straddle = true;
                        o.transport = Transport::pull;
                      }),
        scatter.wrong("medium, pulled", "expected medium mesh push",
                      [](auto&, PlanOptions& o) {
                        o.path = Path::medium;
                        o.transport = Transport::pull;
                      }),
        scatter.wrong("added, in fp32", "expected the operands' type", [](auto&, PlanOptions& o) {
          o.transport = Transport::add;
          o.partials = DType::fp32;
        })})
    if (!f.empty()) return f;
  Bench reduce(member, Op::gemm_ar);
  for (const Finding& f :
       {reduce.wrong("path medium", "expected fused or unfused",
                     set(&PlanOptions::path, Path::medium)),
        reduce.wrong("straddle", "straddle on GPUs", set(&PlanOptions::straddle, true)),
        reduce.wrong("route ring", "expected mesh", set(&PlanOptions::route, RouteKind::ring)),
        reduce.wrong("transport add", "which is for gemm_rs",
                     set(&PlanOptions::transport, Transport::add)),
        reduce.wrong("transport multimem", "got a communicator made without the option multicast",
                     set(&PlanOptions::transport, Transport::multimem))})
    if (!f.empty()) return f;
  return {};
}

Finding check_tensors(Member& member) {
  std::vector<std::uint16_t> host(static_cast<std::size_t>(kRows * kDepth) + 64);
  auto* const aligned =
      reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(host.data()) + 63) / 64 * 64);
  for (const Op op : {Op::gemm_rs, Op::gemm_ar}) {
    Bench b(member, op);
    for (const Finding& f :
         {b.wrong("x on the host", "memory of the host",
                  [&](GemmReduceArgs&a, PlanOptions&) { a.x.data = aligned; }),
          b.wrong("rows of out apart", "one after the other",
                  [](GemmReduceArgs&a, PlanOptions&) { a.out.stride = kCols + 8; }),
          b.wrong("residual over out", "residual and out: got memory that overlaps",
                  [](GemmReduceArgs&a, PlanOptions&) { a.residual = a.out; }),
          b.wrong("residual too narrow", "residual: got [",
                  [](GemmReduceArgs&a, PlanOptions&) {
                    a.residual = a.out;
                    a.residual.cols -= 8;
                  }),
          b.wrong("activation with a residual", "got gelu, expected none",
                  [](GemmReduceArgs&a, PlanOptions&) {
                    a.residual = a.out;
                    a.activation = Activation::gelu;
                  }),
          b.wrong("out over x", "overlaps",
                  [](GemmReduceArgs&a, PlanOptions&) { a.out.data = a.x.data; }),
          b.wrong("no weight", "weight",
                  [](GemmReduceArgs&a, PlanOptions&) { a.weight.data = nullptr; }),
          b.wrong("x unaligned", "alignment", [](GemmReduceArgs&a, PlanOptions&) {
            a.x.data = static_cast<std::byte*>(a.x.data) + 8;
          })})
      if (!f.empty()) return f;
    SumTensors large(member, sum_problem_of(op, member.ranks(), 64 * kRows, kCols, kDepth), true);
    const Finding f = expect_error("more rows than prepared", ErrorKind::usage, "bytes of staging",
                                   [&] { large.call(); });
    if (!f.empty()) return f;
    if (const Finding g = b.works("more rows than prepared"); !g.empty()) return g;
  }
  return {};
}

/// What all ranks must see when they do not make the same call: a usage error, nothing written, and
/// all well after the next prepare.
Finding settle(Member& member, const std::string& what, const SumTensors& t,
               const std::function<void()>& call) {
  const auto e = thrown([&] {
    call();
    member.comm->synchronize(member.stream);
  });
  if (!e || e->kind() != ErrorKind::usage)
    return fmt::format("{}: got {}, expected a usage error", what, e ? e->what() : "no error");
  member.comm->barrier();
  const auto drained = thrown([&] { member.comm->synchronize(member.stream); });
  if (drained && drained->kind() != ErrorKind::usage)
    return fmt::format("{}, draining: got \"{}\", expected no other kind than usage", what,
                       drained->what());
  if (const Finding f = t.check_untouched(); !f.empty()) return fmt::format("{}: {}", what, f);
  Bench b(member, Op::gemm_ar);
  return b.works(what);
}

Finding check_disagreement(Member& member) {
  const bool odd_one = member.rank() == member.ranks() - 1;
  struct Difference {
    const char* what;
    Op op;
    std::int64_t m;
    Transport transport;
  };
  const Difference common{"nothing", Op::gemm_ar, kRows, Transport::pull};
  for (const Difference d : {Difference{"another m", Op::gemm_ar, kRows - 8, Transport::pull},
                             {"another transport", Op::gemm_ar, kRows, Transport::store},
                             {"another op", Op::gemm_rs, kRows, Transport::pull}}) {
    Bench b(member, Op::gemm_ar);
    const Difference& mine = odd_one ? d : common;
    SumTensors t(member, sum_problem_of(mine.op, member.ranks(), mine.m, kCols, kDepth), true);
    t.fill(3);
    PlanOptions o;
    o.path = Path::unfused;
    o.transport = mine.transport;
    const Finding f = settle(member, d.what, t, [&] { t.call(o); });
    if (!f.empty()) return f;
  }
  return {};
}

/// Tiles of the same extents whose partials lie otherwise.
Finding check_straddling(Member& member) {
  const std::int64_t m = 128 * member.ranks();
  if (member.ranks() % 2 != 0 || m > kRows) return {};
  Bench b(member, Op::gemm_rs);
  SumTensors t(member, sum_problem_of(Op::gemm_rs, member.ranks(), m, kCols, kDepth), true);
  t.fill(4);
  PlanOptions o;
  o.path = Path::fused;
  o.tile_m = 256;
  o.tile_n = 128;
  o.straddle = member.rank() == member.ranks() - 1;
  return settle(member, "one rank's tiles that straddle", t, [&] { t.call(o); });
}

Finding check_refusal(Member& member) {
  Bench b(member, Op::gemm_ar);
  b.tensors.fill(9);
  GemmReduceArgs args = b.tensors.args();
  if (member.rank() == 0) args.m += 1;
  return settle(member, "a refusal", b.tensors, [&] { b.tensors.call(args); });
}

/// The first rank does not come: the others get a timeout in time and write nothing.
Finding check_absent(Member& member) {
  Bench b(member, Op::gemm_ar);
  b.tensors.fill(1);
  if (member.rank() == 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(3 * kBoundS));
    return {};
  }
  const auto begin = std::chrono::steady_clock::now();
  b.tensors.call();
  const auto e = thrown([&] { member.comm->synchronize(member.stream); });
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (!e || (e->kind() != ErrorKind::timeout && e->kind() != ErrorKind::peer))
    return fmt::format("got {}, expected a timeout", e ? e->what() : "no error");
  if (took > 2 * kBoundS) return fmt::format("got it after {:.1f} s, expected {:g}", took, kBoundS);
  return b.tensors.check_untouched();
}

}  // namespace

std::vector<Check> sum_misuse_checks() {
  return {{"sums: wrong options", 20, false, check_options, true},
          {"sums: wrong tensors", 20, false, check_tensors, true},
          {"sums: ranks that disagree", 20, true, check_disagreement, true},
          {"sums: ranks that disagree on straddling", 20, true, check_straddling, true},
          {"sums: a rank that refuses", 20, true, check_refusal, true},
          {"sums: a rank that does not come", kBoundS, true, check_absent, false}};
}

}  // namespace tilelace::gpu_test
