// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <memory>
#include <vector>

#include "api/bench.h"
#include "api/checks.h"

namespace tilelace::gpu_test {
namespace {

constexpr std::int64_t kRows = 256, kCols = 256, kDepth = 512;

Problem good_problem(int ranks) {
  Problem p = problem_of(ranks, kRows, {kCols}, kDepth);
  p.return_gathered = true;
  return p;
}

struct GatherBench : Bench<Tensors> {
  explicit GatherBench(Member& m) : Bench(m, good_problem(m.ranks())) {}
};

Finding check_options(Member& member) {
  GatherBench b(member);
  const auto set = [](auto field, auto value) {
    return [=](AgGemmArgs&, PlanOptions& o) { o.*field = value; };
  };
  for (const Finding& f :
       {b.wrong("route two_level", "expected mesh or ring",
                set(&PlanOptions::route, RouteKind::two_level)),
        b.wrong("the ring with pull", "over the ring: got pull, expected push",
                [](AgGemmArgs&, PlanOptions& o) {
                  o.route = RouteKind::ring;
                  o.transport = Transport::pull;
                }),
        b.wrong("medium with store", "with path medium: got store, expected push",
                [](AgGemmArgs&, PlanOptions& o) {
                  o.path = Path::medium;
                  o.transport = Transport::store;
                }),
        b.wrong("a tile that is not compiled", "no plan on GPUs has",
                set(&PlanOptions::tile_m, 100)),
        b.wrong("straddle with push", "no plan on GPUs has", [](AgGemmArgs&, PlanOptions& o) {
          o.straddle = true;
          o.transport = Transport::push;
        })})
    if (!f.empty()) return f;
  return {};
}

Finding check_tensors(Member& member) {
  GatherBench b(member);
  std::vector<std::uint16_t> host(static_cast<std::size_t>(kRows * kDepth) + 64);
  auto* const aligned =
      reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(host.data()) + 63) / 64 * 64);
  const AgGemmArgs good = b.tensors.args();
  std::vector<TensorView> wide(good.out.begin(), good.out.end());
  wide[0].stride = 2 * kCols;
  const auto on_host = [&](AgGemmArgs& a, PlanOptions&) { a.a.data = aligned; };
  for (const Finding& f :
       {b.wrong("a on the host", "host memory", on_host),
        b.wrong("rows apart", "one after the other",
                [&](AgGemmArgs&a, PlanOptions&) {
                  a.out = wide;
                  a.gathered = {};  // it may lie behind: overlap would be found first
                }),
        b.wrong("fp32", "expected fp32",
                [](AgGemmArgs&a, PlanOptions&) { a.a.dtype = DType::fp32; }),
        b.wrong("null input", "null data", [](AgGemmArgs&a, PlanOptions&) { a.a.data = nullptr; }),
        b.wrong("input over output", "overlap: pass separate tensors",
                [&](AgGemmArgs&a, PlanOptions&) { a.gathered.data = a.out[0].data; }),
        b.wrong("unaligned", "alignment", [](AgGemmArgs&a, PlanOptions&) {
          a.a.data = static_cast<std::byte*>(a.a.data) + 8;
        })})
    if (!f.empty()) return f;
  if (member.ranks() == 1) return {};
  SymmetricBuffer shared(*member.comm, static_cast<std::size_t>(kRows * kDepth) * 2);
  void* const elsewhere = shared.peer((member.rank() + 1) % member.ranks());
  const Finding f = b.wrong("a on another GPU", "memory of device",
                            [&](AgGemmArgs& a, PlanOptions&) { a.a.data = elsewhere; });
  member.comm->barrier();
  return f;
}

Finding check_problems(Member& member) {
  GatherBench b(member);
  const auto refuse = [&](const std::string& what, const std::string& text,
                          const std::function<void(Problem&)>& spoil) {
    Problem p = good_problem(member.ranks());
    spoil(p);
    return expect_error(what, ErrorKind::usage, text, [&] { query_plan(*member.comm, p, {}); });
  };
  for (const Finding& f :
       {refuse("fp32", "expected bf16 or fp16", [](Problem& p) { p.dtype = DType::fp32; }),
        refuse("swiglu of two widths", "expected two of equal n",
               [](Problem& p) {
                 p.activation = Activation::swiglu;
                 p.n = {kCols, kCols + 8};
               }),
        refuse("k 12", "multiple of 8", [](Problem& p) { p.k = 12; }),
        refuse("n 12", "multiple of 8", [](Problem& p) { p.n = {12}; })})
    if (!f.empty()) return f;
  Tensors large(member, problem_of(member.ranks(), 4 * kRows, {kCols}, kDepth), true);
  const Finding beyond = expect_error("more rows than prepared", ErrorKind::usage, "to gather",
                                      [&] { ag_gemm(*member.comm, large.args()); });
  return beyond.empty() ? b.works("more rows than prepared") : beyond;
}

Finding check_unprepared(Member& member) {
  Tensors t(member, good_problem(member.ranks()), true);
  t.fill(1);
  const Finding f = expect_error("a call before prepare", ErrorKind::usage, "before prepare",
                                 [&] { ag_gemm(*member.comm, t.args()); });
  if (!f.empty()) return f;
  const Problem other =
      problem_of(member.ranks(), kRows + (member.rank() == 0 ? 8 : 0), {kCols}, kDepth);
  Tensors mine(member, other, true);
  const std::array list{mine.preparation()};
  if (member.ranks() > 1) {
    const Finding g = expect_error("other problems on each rank", ErrorKind::usage, "prepares",
                                   [&] { member.comm->prepare(list); });
    if (!g.empty()) return g;
  }
  GatherBench b(member);
  return b.works("failed preparations");
}

/// And all is well after the next prepare.
Finding settle(Member& member, const Tensors& t, const std::function<void()>& call) {
  if (const Finding f = disagrees(member, t, call); !f.empty()) return f;
  GatherBench b(member);
  return b.works("a disagreement");
}

Finding check_disagreement(Member& member) {
  struct Difference {
    const char* what;
    std::int64_t m;
    Path path;
  };
  for (const Difference d :
       {Difference{"m", kRows - 8, Path::fused}, {"path", kRows, Path::unfused}}) {
    GatherBench b(member);
    const bool odd_one = member.rank() == member.ranks() - 1;
    Problem p = good_problem(member.ranks());
    if (odd_one) p.m = d.m;
    Tensors t(member, p, true);
    t.fill(3);
    PlanOptions o;
    if (odd_one) o.path = d.path;
    const Finding f = settle(member, t, [&] { ag_gemm(*member.comm, t.args(), o); });
    if (!f.empty()) return fmt::format("another {}: {}", d.what, f);
  }
  return {};
}

Finding check_refusal(Member& member) {
  GatherBench b(member);
  b.tensors.fill(9);
  AgGemmArgs args = b.tensors.args();
  if (member.rank() == 0) args.m += 1;
  return settle(member, b.tensors, [&] { ag_gemm(*member.comm, args); });
}

/// The rank that cannot prepare is told why, though its peers are in a call.
Finding check_refused_preparation(Member& member) {
  GatherBench b(member);
  b.tensors.fill(9);
  std::array list{b.tensors.preparation()};
  list[0].problem.dtype = DType::fp32;
  list[0].weights = {};
  std::string text;
  const Finding f = settle(member, b.tensors, [&] {
    try {
      if (member.rank() == 0) return member.comm->prepare(list);
      ag_gemm(*member.comm, b.tensors.args());
    } catch (const Error& e) {
      text = e.what();
      throw;
    }
  });
  if (!f.empty() || member.rank() != 0) return f;
  return text.find("expected bf16 or fp16") != std::string::npos
             ? Finding{}
             : fmt::format("got \"{}\", expected its own fault: bf16 or fp16", text);
}

Finding check_options_of_ranks(Member& member) {
  CommunicatorOptions o;
  o.device = Device::cuda;
  const auto make = [&](int ranks, const CommunicatorOptions& options) {
    return [=] { Communicator::threads(ranks, options); };
  };
  int devices = 0;
  cudaGetDeviceCount(&devices);
  CommunicatorOptions workers = o, index = o;
  workers.workers = 4;
  index.device_index = devices;
  for (const Finding& f :
       {expect_error("more ranks than GPUs", ErrorKind::usage, "each rank needs a GPU of its own",
                     make(devices + 1, o)),
        expect_error("workers", ErrorKind::usage, "workers on GPUs", make(1, workers)),
        expect_error("a device that is not there", ErrorKind::usage,
                     "each rank needs a GPU of its own", make(1, index))})
    if (!f.empty()) return f;
  member.comm->barrier();
  return {};
}

}  // namespace

std::vector<Check> misuse_checks() {
  return {{"wrong options", 20, false, check_options, true},
          {"wrong tensors", 20, false, check_tensors, true},
          {"wrong problems", 20, false, check_problems, true},
          {"calls before prepare", 20, false, check_unprepared, true},
          {"ranks that disagree", 20, true, check_disagreement, true},
          {"a rank that refuses", 20, true, check_refusal, true},
          {"a rank that cannot prepare", 20, true, check_refused_preparation, true},
          {"wrong communicators", 20, false, check_options_of_ranks, false}};
}

}  // namespace tilelace::gpu_test
