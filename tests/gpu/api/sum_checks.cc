// SPDX-License-Identifier: Apache-2.0
// gemm_rs and gemm_ar: results on every path, parts alone, the same bits everywhere, all ops in
// turns and in one graph.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <array>
#include <memory>
#include <optional>

#include "api/checks.h"
#include "api/graph.h"
#include "api/sums.h"

namespace tilelace::gpu_test {
namespace {

constexpr int kCalls = 4;  // of each case

/// What problems may ask for; one without rows; shards that differ are pulled.
std::vector<Problem> problems_of(Op op, int ranks) {
  Problem plain = sum_problem_of(op, ranks, 0, 256, 512);
  Problem few = sum_problem_of(op, ranks, 77, 520, 1024);
  few.bias = few.residual = true;
  Problem many = sum_problem_of(op, ranks, 2050, 1032, 512);
  many.residual = true;
  many.dtype = DType::fp16;
  Problem activated = sum_problem_of(op, ranks, 512, 2048, 1024);
  activated.bias = true;
  activated.activation = Activation::silu;
  if (op == Op::gemm_rs) many.rows = uneven_rows(many.m, ranks);
  return {plain, few, many, activated};
}

PlanOptions transport_of(Transport transport) {
  PlanOptions o = path_of(Path::unfused);
  o.transport = transport;
  return o;
}

/// Every way there is; first the planner's own.
std::vector<PlanOptions> ways_of(Op op) {
  std::vector<PlanOptions> ways{path_of(Path::fused), transport_of(Transport::pull)};
  if (op == Op::gemm_ar) ways.push_back(transport_of(Transport::store));
  std::vector<PlanOptions> all{{}, transport_of(Transport::push)};
  all.insert(all.end(), ways.begin(), ways.end());
  if (op == Op::gemm_ar) return all;
  all.push_back(path_of(Path::medium));
  return all;
}

std::string text_of(const PlanOptions& o) {
  return fmt::format("path {}, transport {}", o.path ? name_of(*o.path) : "any",
                     o.transport ? name_of(*o.transport) : "any");
}

Finding run_case(Member& member, const Problem& p, const PlanOptions& options,
                 bool reachable = false) {
  SumTensors t(member, p, !p.bias && p.activation == Activation::none, reachable);
  t.prepare({options});
  for (std::uint64_t call = 1; call <= kCalls; ++call) {
    const auto where = fmt::format("{}, {}{}, call {}", fmt::streamed(p), text_of(options),
                                   reachable ? ", symmetric out" : "", call);
    if (const Finding f = t.one_call(call, options); !f.empty())
      return fmt::format("{}: {}", where, f);
    if (p.op != Op::gemm_ar) continue;
    if (const Finding f = equal_on_ranks(member, t.hash(), where); !f.empty()) return f;
  }
  return {};
}

template <Op kOp>
Finding check_problems(Member& member) {
  for (const PlanOptions& options : ways_of(kOp))
    for (const Problem& p : problems_of(kOp, member.ranks())) {
      // Shards that differ are pulled; one rank has nobody to push to.
      const bool pushes = options.transport == Transport::push;
      if (pushes && (!p.rows.empty() || member.ranks() == 1)) continue;
      if (const Finding f = run_case(member, p, options); !f.empty()) return f;
      const bool shares = options.path != Path::unfused || pushes;
      if (kOp != Op::gemm_ar || !shares) continue;
      if (const Finding f = run_case(member, p, options, true); !f.empty()) return f;
    }
  return {};
}

/// However rows are cut and whoever sums them: the same bits.
Finding check_same_bits(Member& member) {
  const Problem p = sum_problem_of(Op::gemm_ar, member.ranks(), 333, 1032, 1024);
  SumTensors t(member, p, false);
  std::vector<PlanOptions> ways;
  for (const Transport transport : {Transport::pull, Transport::store})
    for (const std::int64_t chunk : {1, 7, 500}) {
      ways.push_back(transport_of(transport));
      ways.back().chunk_rows = chunk;
    }
  ways.push_back(transport_of(Transport::push));
  t.prepare();
  std::optional<std::uint64_t> first;
  for (const PlanOptions& o : ways) {
    for (int call = 0; call < 2; ++call) {
      const auto where = fmt::format("{} chunk {}", text_of(o), o.chunk_rows.value_or(0));
      if (const Finding f = t.one_call(5, o); !f.empty()) return fmt::format("{}: {}", where, f);
      if (!first) first = t.hash();
      if (t.hash() != *first) return fmt::format("{}: got other bits than the first way", where);
    }
  }
  return equal_on_ranks(member, *first, "all ways");
}

Finding check_parts(Member& member) {
  for (const Op op : {Op::gemm_rs, Op::gemm_ar}) {
    for (const std::int64_t m : {0, 16, 501, 2048}) {
      const Problem p = sum_problem_of(op, member.ranks(), m, 520, 1024);
      SumTensors t(member, p, true);
      t.prepare({{}, path_of(Path::unfused)});
      for (int call = 0; call < kCalls; ++call) {
        t.fill(static_cast<std::uint64_t>(call + 1));
        gemm_only(*member.comm, t.product_args());
        collective_only(*member.comm, op, t.collective_args());
        member.comm->synchronize(member.stream);
        for (const Finding& f : {t.check_partial(), t.check()})
          if (!f.empty())
            return fmt::format("{} m {}, parts, call {}: {}", name_of(op), m, call, f);
      }
    }
  }
  return {};
}

/// The ops of a layer and more, on one staging.
struct Layer {
  explicit Layer(Member& m)
      : member(m),
        gather(m, gpu_test::problem_of(m.ranks(), 1000, {640}, 1024), true),
        scatter(m, sum_problem_of(Op::gemm_rs, m.ranks(), 1000, 1032, 640), true),
        few(m, sum_problem_of(Op::gemm_rs, m.ranks(), 33, 1032, 640), true),
        reduce(m, sum_problem_of(Op::gemm_ar, m.ranks(), 77, 2056, 512), true) {
    const std::array list{gather.preparation(), scatter.preparation(), few.preparation(),
                          reduce.preparation()};
    m.comm->prepare(list);
  }
  static constexpr int kWays = 8;
  void fill(std::uint64_t seed) {
    gather.fill(seed);
    for (SumTensors* t : {&scatter, &few, &reduce}) t->fill(seed);
  }
  void call(int way) {
    switch (way) {
      case 0: return ag_gemm(*member.comm, gather.args());
      case 1: return scatter.call(path_of(Path::fused));
      case 2: return scatter.call(path_of(Path::unfused));
      case 3: return few.call();
      case 4: return reduce.call(transport_of(Transport::pull));
      case 5: return reduce.call(transport_of(Transport::store));
      case 6: return reduce.call(transport_of(Transport::push));
      default: return scatter.call(transport_of(Transport::push));
    }
  }
  Finding check(int way) {
    if (way == 0) return gather.check();
    return way < 3 || way == 7 ? scatter.check() : way == 3 ? few.check() : reduce.check();
  }

  Member& member;
  Tensors gather;
  SumTensors scatter, few, reduce;
};

/// Calls of all ops in an order that differs from round to round, a few of them without a look in
/// between.
Finding check_turns(Member& member) {
  Layer layer(member);
  std::uint64_t state = 1;
  for (std::uint64_t round = 1; round <= 60; ++round) {
    layer.fill(round);
    std::array<int, 5> ways{};
    for (int& way : ways) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      way = static_cast<int>((state >> 33U) % Layer::kWays);
      layer.call(way);
    }
    member.comm->synchronize(member.stream);
    for (const int way : ways)
      if (const Finding f = layer.check(way); !f.empty())
        return fmt::format("round {} ({}), way {}: {}", round, fmt::join(ways, " "), way, f);
  }
  return {};
}

/// All of them in one graph, eager calls in between.
Finding check_graphs(Member& member) {
  Layer layer(member);
  const std::array<int, 4> ways{0, 1, 3, 4};
  const std::array<int, 4> others{2, 5, 0, 3};
  const Graph one(member, [&] {
    for (const int way : ways) layer.call(way);
  });
  const Graph two(member, [&] {
    for (const int way : others) layer.call(way);
  });
  for (std::uint64_t round = 1; round <= 40; ++round) {
    layer.fill(round);
    const bool first = round % 2 == 0;
    if (round % 5 == 0)
      for (const int way : ways) layer.call(way);
    else
      (first ? one : two).replay();
    member.comm->synchronize(member.stream);
    for (const int way : round % 5 == 0 || first ? ways : others)
      if (const Finding f = layer.check(way); !f.empty())
        return fmt::format("round {}, way {}: {}", round, way, f);
  }
  return {};
}

}  // namespace

std::vector<Check> sum_checks() {
  return {{"gemm_rs: problems, every way", 20, false, check_problems<Op::gemm_rs>, true},
          {"gemm_ar: problems, every way", 20, false, check_problems<Op::gemm_ar>, true},
          {"gemm_ar: the same bits, whoever sums", 20, false, check_same_bits, true},
          {"product alone, sum alone", 20, false, check_parts, true},
          {"all ops in turns", 20, false, check_turns, true},
          {"all ops in one graph", 20, false, check_graphs, true}};
}

}  // namespace tilelace::gpu_test
