// SPDX-License-Identifier: Apache-2.0
// What ranks compare before a call writes anything.
#include "plan/words/agreement.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <sstream>

#include "cuda_plans.h"
#include "plan/gpu/gpu_ways.h"

namespace tilelace::plan {
namespace {

std::string print_of(const Plan& plan) {
  std::ostringstream os;
  os << plan;
  return os.str();
}

TEST(Agreement, SaysWhereListsEnd) {
  // Without the lists' lengths the numbers of both are m 1, then 12 8 1 1 1 0 1 0.
  Problem three{.op = Op::ag_gemm, .ranks = 2, .m = 1, .n = {12, 8, 1}, .k = 1};
  three.dtype = DType::fp16;
  three.activation = Activation::gelu;
  Problem one{.op = Op::ag_gemm, .ranks = 2, .m = 1, .n = {12}, .k = 8};
  one.dtype = DType::fp16;
  one.bias = true;
  one.activation = Activation::gelu;
  one.rows = {1, 0};
  EXPECT_NE(call_bytes(three, {}), call_bytes(one, {}));
  EXPECT_NE(agreement_hash(three, {}), agreement_hash(one, {}));
}

Problem any_problem(std::mt19937_64& rng) {
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(rng() % n); };
  Problem p = cuda_problem(static_cast<Op>(below(3)), 2 + static_cast<int>(below(7)),
                           1 + below(std::uint64_t{1} << below(13)), 8 * (1 + below(1024)),
                           8 * (1 + below(1024)));
  if (p.op == Op::ag_gemm && below(2) == 0) p.n.push_back(p.n.front());
  return p;
}

#ifdef __SANITIZE_ADDRESS__  // a tenth of the speed
constexpr std::size_t kProblems = 60;
#else
constexpr std::size_t kProblems = 500;
#endif

/// Plans that are printed differently are different. Many that print alike differ in a choice that
/// is not printed (how many shards are walked apart where there are two).
TEST(Agreement, NoTwoPlansOfAProblemHaveTheSameBytes) {
  std::mt19937_64 rng(8);
  std::size_t plans = 0;
  for (std::size_t i = 0; i < kProblems; ++i) {
    const Problem p = any_problem(rng);
    std::map<std::string, std::string> texts;
    std::set<std::uint32_t> hashes;
    for (const CudaWay& way : cuda_ways(p, cuda_machine())) {
      const std::string text = print_of(way.plan);
      const auto [at, fresh] = texts.emplace(call_bytes(p, way.plan), text);
      EXPECT_TRUE(fresh) << text << "\n" << at->second;
      hashes.insert(agreement_hash(p, way.plan));
    }
    // Of 32 bits: hardly ever do two of some thousand meet.
    EXPECT_LE(texts.size() - hashes.size(), 1U) << p;
    plans += texts.size();
  }
  EXPECT_GT(plans, 300 * kProblems);
}

/// Changes one choice of a way at a time; all that come of it.
template <class Way, class... Changes>
void expect_all_differ(const Problem& p, const Way& way, Changes... changes) {
  std::set<std::string> bytes{call_bytes(p, plan_of(p, way))};
  std::set<std::uint32_t> hashes{agreement_hash(p, plan_of(p, way))};
  const auto add = [&](auto change) {
    Way other = way;
    change(other);
    const Plan plan = plan_of(p, other, 1);
    EXPECT_TRUE(bytes.insert(call_bytes(p, plan)).second) << plan << " of " << bytes.size();
    EXPECT_TRUE(hashes.insert(agreement_hash(p, plan)).second) << plan;
  };
  (add(changes), ...);
  add([](Way& w) { w.gemm.tile = kGemmTiles[w.gemm.tile.name == kGemmTiles[0].name ? 1 : 0]; });
  add([](Way& w) { ++w.gemm.workers; });
  add([](Way& w) { ++w.gemm.split_tiles; });
  add([](Way& w) { ++w.gemm.rounds; });
  add([](Way& w) { ++w.gemm.group; });
  add([](Way& w) { --w.gemm.wide; });
  add([](Way& w) { ++w.gemm.deep; });
  add([](Way& w) { w.gemm.along_cols = !w.gemm.along_cols; });
  add([](Way& w) { w.gemm.by_neighbours = !w.gemm.by_neighbours; });
  add([](Way& w) { w.gemm.early_weights = !w.gemm.early_weights; });
}

TEST(Agreement, EveryChoiceOfEveryWayCounts) {
  const Problem gather = cuda_problem(Op::ag_gemm, 4, 512, 1024, 1024);
  const Problem scatter = cuda_problem(Op::gemm_rs, 4, 512, 1024, 1024);
  const Problem reduce = cuda_problem(Op::gemm_ar, 4, 512, 1024, 1024);
  expect_all_differ(
      gather, ag_gemm_candidates(gather).front(), [](AgGemmWay& w) { w.whole = !w.whole; },
      [](AgGemmWay& w) { w.transport = Transport::pull; }, [](AgGemmWay& w) { ++w.chunk_rows; },
      [](AgGemmWay& w) { w.apart += 4; },
      [](AgGemmWay& w) {
        w.joins = {1, 2, 3};
      },
      [](AgGemmWay& w) {
        w.joins = {1, 2};
      },
      [](AgGemmWay& w) { w.path = Path::unfused; },
      [](AgGemmWay& w) { w.route = RouteKind::ring; });
  expect_all_differ(
      scatter, gemm_rs_candidates(scatter).front(), [](GemmRsWay& w) { w.apart += 2; },
      [](GemmRsWay& w) { w.pairs = !w.pairs; });
  expect_all_differ(
      reduce, gemm_ar_candidates(reduce).front(), [](GemmArWay& w) { w.block_rows += 128; },
      [](GemmArWay& w) { ++w.lag; }, [](GemmArWay& w) { w.by_columns = !w.by_columns; });
  expect_all_differ(
      reduce, gemm_sums_candidates(reduce).front(),
      [](KeptPartialsWay& w) { w.shots = 3 - w.shots; },
      [](KeptPartialsWay& w) { w.by_switch = !w.by_switch; });
  expect_all_differ(
      reduce, gemm_reduce_candidates(reduce).front(),
      [](UnfusedSumWay& w) { w.transport = Transport::multimem; },
      [](UnfusedSumWay& w) { ++w.chunk_rows; }, [](UnfusedSumWay& w) { w.shots = 3 - w.shots; },
      [](UnfusedSumWay& w) { w.lines = !w.lines; }, [](UnfusedSumWay& w) { ++w.cublas; });
  expect_all_differ(scatter, copied_partials_candidates(scatter).front(),
                    [](CopiedPartialsWay& w) { ++w.chunk_rows; });
}

TEST(Agreement, SoDoesTheArchitecture) {
  const Problem p = cuda_problem(Op::gemm_rs, 4, 512, 1024, 1024);
  const Plan plan = make_plan(p, cuda_machine());
  KernelChoice other = *plan.kernel;
  std::visit([](auto& way) { ++way.gemm.architecture; }, other.way);
  Plan elsewhere = plan;
  elsewhere.kernel = std::make_shared<const KernelChoice>(other);
  EXPECT_NE(call_bytes(p, plan), call_bytes(p, elsewhere));
  EXPECT_NE(print_of(plan), print_of(elsewhere));
  Machine machine = cuda_machine();
  ++machine.architecture;
  std::ostringstream here, there;
  here << cuda_machine();
  there << machine;
  EXPECT_NE(here.str(), there.str());  // what prepare compares
}

TEST(Agreement, SoDoTheWordsOfCpuRanksAndTheKindOfACall) {
  const Problem p = cuda_problem(Op::gemm_ar, 4, 512, 1024, 1024);
  const Plan plan = make_plan(p, cpu_machine(4, 1));
  std::set<std::string> bytes{call_bytes(p, plan), call_bytes(p, plan, {.collective = true}),
                              call_bytes(p, plan, {.out = 1}), call_bytes(p, plan, {.out = 2})};
  const auto add = [&](auto change) {
    Plan other = plan;
    change(other);
    EXPECT_TRUE(bytes.insert(call_bytes(p, other)).second) << other;
  };
  add([](Plan& o) { o.path = Path::medium; });
  add([](Plan& o) { o.route = RouteKind::ring; });
  add([](Plan& o) { ++o.local_ranks; });
  add([](Plan& o) { o.transport = Transport::pull; });
  add([](Plan& o) { ++o.tile_m; });
  add([](Plan& o) { ++o.tile_n; });
  add([](Plan& o) { ++o.chunk_rows; });
  add([](Plan& o) { ++o.blocks; });
  add([](Plan& o) { ++o.workers; });
  add([](Plan& o) { o.straddle = !o.straddle; });
  add([](Plan& o) { o.partials = DType::fp32; });
  EXPECT_EQ(bytes.size(), 15U);
}

}  // namespace
}  // namespace tilelace::plan
