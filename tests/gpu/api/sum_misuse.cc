// SPDX-License-Identifier: Apache-2.0
// Wrong calls of gemm_rs and gemm_ar, each followed by one that must be right; ranks that disagree.
#include <fmt/format.h>

#include <vector>

#include "api/bench.h"
#include "api/checks.h"
#include "api/sums.h"

namespace tilelace::gpu_test {
namespace {

constexpr std::int64_t kRows = 600, kCols = 264, kDepth = 512;

struct SumBench : Bench<SumTensors> {
  SumBench(Member& m, Op op) : Bench(m, sum_problem_of(op, m.ranks(), kRows, kCols, kDepth)) {}
};

Finding check_options(Member& member) {
  const auto set = [](auto field, auto value) {
    return [=](GemmReduceArgs&, PlanOptions& o) { o.*field = value; };
  };
  for (const Op op : {Op::gemm_rs, Op::gemm_ar}) {
    SumBench b(member, op);
    for (const Finding& f : {b.wrong("transport nccl", "got nccl, expected push, pull",
                                     set(&PlanOptions::transport, Transport::nccl)),
                             b.wrong("partials fp16", "expected the operands' type, bf16",
                                     set(&PlanOptions::partials, DType::fp16)),
                             b.wrong("a tile that is not compiled", "no plan on GPUs has",
                                     set(&PlanOptions::tile_m, 100))})
      if (!f.empty()) return f;
  }
  SumBench scatter(member, Op::gemm_rs);
  for (const Finding& f :
       {scatter.wrong("unfused store", "no plan on GPUs has",
                      [](auto&, PlanOptions& o) {
                        o.path = Path::unfused;
                        o.transport = Transport::store;
                      }),
        scatter.wrong("straddle, pulled", "straddle 1",
                      [](auto&, PlanOptions& o) {
                        o.straddle = true;
                        o.transport = Transport::pull;
                      }),
        scatter.wrong("medium, pulled", "with path medium: got pull, expected push",
                      [](auto&, PlanOptions& o) {
                        o.path = Path::medium;
                        o.transport = Transport::pull;
                      }),
        scatter.wrong("route ring", "expected mesh", set(&PlanOptions::route, RouteKind::ring)),
        scatter.wrong("medium, in fp32", "expected the operands' type", [](auto&, PlanOptions& o) {
          o.path = Path::medium;
          o.partials = DType::fp32;
        })})
    if (!f.empty()) return f;
  SumBench reduce(member, Op::gemm_ar);
  for (const Finding& f :
       {reduce.wrong("path medium", "expected fused or unfused",
                     set(&PlanOptions::path, Path::medium)),
        reduce.wrong("straddle", "straddle on GPUs", set(&PlanOptions::straddle, true)),
        reduce.wrong("route ring", "expected mesh", set(&PlanOptions::route, RouteKind::ring)),
        reduce.wrong("transport multimem", "the communicator was made without the option multicast",
                     set(&PlanOptions::transport, Transport::multimem))})
    if (!f.empty()) return f;
  return {};
}

Finding check_tensors(Member& member) {
  std::vector<std::uint16_t> host(static_cast<std::size_t>(kRows * kDepth) + 64);
  auto* const aligned =
      reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(host.data()) + 63) / 64 * 64);
  for (const Op op : {Op::gemm_rs, Op::gemm_ar}) {
    SumBench b(member, op);
    for (const Finding& f :
         {b.wrong("x on the host", "host memory",
                  [&](GemmReduceArgs&a, PlanOptions&) { a.x.data = aligned; }),
          b.wrong("rows of out apart", "one after the other",
                  [](GemmReduceArgs&a, PlanOptions&) { a.out.stride = kCols + 8; }),
          b.wrong("residual over out", "residual and out overlap",
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
          b.wrong("out over x", "overlap: pass separate tensors",
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

/// And all is well after the next prepare.
Finding settle(Member& member, const std::string& what, const SumTensors& t,
               const std::function<void()>& call) {
  if (const Finding f = disagrees(member, t, call); !f.empty())
    return fmt::format("{}: {}", what, f);
  SumBench b(member, Op::gemm_ar);
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
    SumBench b(member, Op::gemm_ar);
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
  SumBench b(member, Op::gemm_rs);
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
  SumBench b(member, Op::gemm_ar);
  b.tensors.fill(9);
  GemmReduceArgs args = b.tensors.args();
  if (member.rank() == 0) args.m += 1;
  return settle(member, "a refusal", b.tensors, [&] { b.tensors.call(args); });
}

}  // namespace

std::vector<Check> sum_misuse_checks() {
  return {{"sums: wrong options", 20, false, check_options, true},
          {"sums: wrong tensors", 20, false, check_tensors, true},
          {"sums: ranks that disagree", 20, true, check_disagreement, true},
          {"sums: ranks that disagree on straddling", 20, true, check_straddling, true},
          {"sums: a rank that refuses", 20, true, check_refusal, true}};
}

}  // namespace tilelace::gpu_test
