// SPDX-License-Identifier: Apache-2.0
// Plans of GPU ranks; no GPU is needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "cuda_plans.h"
#include "plan/gpu/gpu_plan.h"
#include "plan/ways/gather_exchange.h"
#include "plan/words/agreement.h"

namespace tilelace::plan {
namespace {

Problem gather_problem(std::int64_t m, std::vector<std::int64_t> n = {7168}) {
  Problem p;
  p.ranks = 4;
  p.m = m;
  p.n = std::move(n);
  p.k = 8192;
  return p;
}

template <class T>
std::string text_of(const T& value) {
  std::ostringstream os;
  os << value;
  return os.str();
}

TEST(CudaPlan, NamesTheKernelAndSaysWhy) {
  const Plan plan = make_plan(gather_problem(4096), cuda_machine());
  EXPECT_EQ(plan.path, Path::fused);
  EXPECT_EQ(plan.transport, Transport::push);
  ASSERT_NE(plan.kernel, nullptr);
  EXPECT_EQ(grid_of(plan), 132);
  const std::string text = text_of(plan);
  EXPECT_NE(text.find("ag_gemm fused mesh push tile "), std::string::npos) << text;
  EXPECT_NE(text.find("; " + std::string(tile_of(plan)) + " split "), std::string::npos) << text;
  EXPECT_NE(text.find(" grid 132"), std::string::npos) << text;
  EXPECT_NE(plan.reason.find("fastest of "), std::string::npos) << plan.reason;
  EXPECT_NE(plan.reason.find("GEMM "), std::string::npos) << plan.reason;
  EXPECT_FALSE(plan.rejected.empty());
  EXPECT_EQ(plan.staging_bytes,
            4 * 8192 + 4096 * 8192 * 2 + gathering_line_bytes(gather_problem(4096)));
}

TEST(CudaPlan, IsTheFastestCandidateOfTheKernels) {
  for (const std::int64_t m : {1, 16, 64, 256, 1000, 1024, 3001, 16384}) {
    for (const Problem& p : {gather_problem(m), gather_problem(m, {3584, 3584}),
                             gather_problem(m, {1024}), gather_problem(2 * m, {40960})}) {
      const auto all = ag_gemm_candidates(p);
      for (const Path wanted : {Path::fused, Path::medium}) {
        const auto best = std::find_if(all.begin(), all.end(), [&](const AgGemmWay& c) {
          return c.path == wanted && c.transport != Transport::pull;
        });
        const Plan got = make_plan(p, cuda_machine(), path(wanted));
        EXPECT_EQ(choice_bytes(got), choice_bytes(plan_of(p, *best))) << m;
        EXPECT_EQ(got.path, wanted);
      }
    }
  }
}

TEST(CudaPlan, TokensAreAcrossWhereATileAsksForItOrTheyFitNoOther) {
  const Problem p = gather_problem(3001);
  PlanOptions options;
  options.tile_m = 304;  // two CTAs of 152
  options.tile_n = 256;
  for (const Path way : {Path::fused, Path::medium, Path::unfused}) {
    options.path = way;
    const Plan plan = make_plan(p, cuda_machine(), options);
    EXPECT_EQ(tile_of(plan), "y152_1x2") << plan;
    EXPECT_EQ(plan.path, way);
  }
  for (const std::int64_t m : {300, 777})
    EXPECT_TRUE(
        is_across(way_of<AgGemmWay>(make_plan(gather_problem(m), cuda_machine())).gemm.tile));
  for (const std::int64_t m : {512, 1024, 4096})
    EXPECT_FALSE(
        is_across(way_of<AgGemmWay>(make_plan(gather_problem(m), cuda_machine())).gemm.tile));
}

TEST(CudaPlan, UnfusedIsSlowerAndWaitsFirst) {
  for (const std::int64_t m : {1, 64, 512, 4096}) {
    const Problem p = gather_problem(m);
    const Plan unfused = make_plan(p, cuda_machine(), path(Path::unfused));
    EXPECT_EQ(unfused.path, Path::unfused);
    EXPECT_EQ(way_of<AgGemmWay>(unfused).path, Path::unfused);
    EXPECT_NE(unfused.reason.find("one after the other"), std::string::npos) << unfused.reason;
    EXPECT_EQ(make_plan(p, cuda_machine()).path, Path::fused) << m;
  }
}

TEST(CudaPlan, SmallerMachinesGetSmallerGrids) {
  for (const std::int64_t m : {1, 64, 300, 1024, 4096}) {
    const Plan plan = make_plan(gather_problem(m), cuda_machine(100));
    EXPECT_LE(grid_of(plan), tile_of(plan).starts_with("v16") ? 200 : 100) << text_of(plan);
    EXPECT_GT(grid_of(plan), 0);
  }
}

TEST(CudaPlan, TakesOptions) {
  PlanOptions o;
  o.transport = Transport::store;
  o.straddle = true;
  o.chunk_rows = 32;
  const Plan plan = make_plan(gather_problem(512), cuda_machine(), o);
  EXPECT_EQ(plan.transport, Transport::store);
  EXPECT_TRUE(plan.straddle);
  EXPECT_EQ(plan.chunk_rows, 32);
  EXPECT_NE(plan.reason.find("of what was asked for"), std::string::npos) << plan.reason;
}

TEST(CudaPlan, TakesEveryTransportAndRouteOfCopyEngines) {
  for (const std::int64_t m : {1, 64, 1000, 4096}) {
    PlanOptions o;
    o.transport = Transport::pull;
    Plan plan = make_plan(gather_problem(m), cuda_machine(), o);
    EXPECT_EQ(plan.transport, Transport::pull);
    EXPECT_EQ(plan.route, RouteKind::mesh);
    EXPECT_LT(grid_of(plan), 132);
    o = {};
    o.route = RouteKind::ring;
    plan = make_plan(gather_problem(m), cuda_machine(), o);
    EXPECT_EQ(plan.transport, Transport::push);
    EXPECT_EQ(plan.route, RouteKind::ring);
    EXPECT_NE(text_of(plan).find(" ring push tile "), std::string::npos) << text_of(plan);
    for (const Path wanted : {Path::fused, Path::unfused}) {
      o.path = wanted;
      const AgGemmWay got = way_of<AgGemmWay>(make_plan(gather_problem(m), cuda_machine(), o));
      EXPECT_EQ(got.route, RouteKind::ring);
      EXPECT_EQ(got.path, wanted);
      EXPECT_TRUE(got.relays());
    }
    plan = make_plan(gather_problem(m), cuda_machine(), path(Path::medium));
    EXPECT_EQ(plan.path, Path::medium);
    EXPECT_EQ(plan.chunk_rows, (m + 3) / 4);
    EXPECT_GT(grid_of(plan), 0);
    EXPECT_NE(plan.reason.find(" a shard, gather "), std::string::npos) << plan.reason;
  }
}

TEST(CudaPlan, TakesNcclOnlyWhenAskedFor) {
  for (const std::int64_t m : {1, 64, 1000, 4096}) {
    PlanOptions o;
    o.transport = Transport::nccl;
    for (const Path wanted : {Path::fused, Path::unfused}) {
      o.path = wanted;
      const Plan plan = make_plan(gather_problem(m), cuda_machine(), o);
      EXPECT_EQ(plan.transport, Transport::nccl);
      EXPECT_EQ(plan.path, wanted);
      EXPECT_LE(grid_of(plan), 132 - kNcclMultiprocessors);
      EXPECT_EQ(way_of<AgGemmWay>(plan).left_free(), kNcclMultiprocessors);
    }
    for (const AgGemmWay& c : ag_gemm_candidates(gather_problem(m)))
      EXPECT_NE(c.transport, Transport::nccl);
    o.path = Path::medium;
    EXPECT_NE(error_of(gather_problem(m), o).find("with path medium: got nccl, expected push"),
              std::string::npos);
  }
  PlanOptions o;
  o.transport = Transport::nccl;
  Problem sum = gather_problem(64);
  sum.op = Op::gemm_rs;
  EXPECT_NE(error_of(sum, o).find("got nccl, expected push, pull or store"), std::string::npos);
  EXPECT_THROW(make_plan(gather_problem(64), cpu_machine(4, 1), o), Error);
}

/// Such calls cannot be captured there.
TEST(CudaPlan, OfAShareOfADeviceHasCopiesThatWaitOnlyWhenAskedFor) {
  Machine share = cuda_machine(66);
  share.shared_device = true;
  PlanOptions pull, ring, nccl;
  pull.transport = Transport::pull;
  ring.route = RouteKind::ring;
  nccl.transport = Transport::nccl;
  for (const std::int64_t m : {1, 300, 4096}) {
    const Plan plan = make_plan(gather_problem(m), share);
    EXPECT_EQ(way_of<AgGemmWay>(plan).left_free(), 0) << plan;
    for (const std::string& text : plan.rejected) {
      EXPECT_EQ(text.find("pull"), std::string::npos) << text;
      EXPECT_EQ(text.find("ring"), std::string::npos) << text;
    }
    for (const PlanOptions& o : {pull, ring, nccl})
      EXPECT_GT(way_of<AgGemmWay>(make_plan(gather_problem(m), share, o)).left_free(), 0);
  }
}

/// A kernel that stands half placed keeps the copies that it waits for from their place.
TEST(CudaPlan, BesideCopiesThatTakeMultiprocessorsHasNoLargeClusters) {
  int beside = 0, alone = 0;
  for (const int multiprocessors : {66, 132}) {
    for (const std::int64_t m : {21, 300, 1009, 4096}) {
      const Problem p = gather_problem(m);
      auto plans = ag_gemm_candidates(p, {multiprocessors});
      const auto nccl = ag_gemm_nccl_candidates(p, {multiprocessors});
      plans.insert(plans.end(), nccl.begin(), nccl.end());
      for (const AgGemmWay& c : plans) {
        EXPECT_TRUE(c.left_free() == 0 || c.gemm.tile.cluster() <= 2) << c.gemm;
        ++(c.left_free() > 0 ? beside : alone);
      }
    }
  }
  EXPECT_GT(beside, 0);
  EXPECT_GT(alone, 0);
}

TEST(CudaPlan, SaysWhatOtherTransportsWouldTake) {
  const Plan plan = make_plan(gather_problem(4096), cuda_machine());
  for (const char* kind :
       {"ring by shard: predicted ", "medium push: predicted ", "unfused push: predicted "})
    EXPECT_TRUE(std::any_of(plan.rejected.begin(), plan.rejected.end(), [&](const std::string& r) {
      return r.rfind(kind, 0) == 0;
    })) << kind;
}

TEST(CudaPlan, OfNoRowsHasNoKernel) {
  const Plan plan = make_plan(gather_problem(0), cuda_machine());
  EXPECT_EQ(plan.kernel, nullptr);
  EXPECT_EQ(plan.reason, "no rows: the ranks only agree");
}

TEST(CudaPlan, OfUnevenRowsIsMadeForTheLargestShard) {
  Problem p = gather_problem(4096);
  p.rows = {4096, 0, 0, 0};
  const Plan plan = make_plan(p, cuda_machine());
  EXPECT_GE(plan.chunk_rows, 1024);
}

Problem gated_problem(std::int64_t m, std::int64_t n = 7168) {
  Problem p = gather_problem(m, {n, n});
  p.activation = Activation::swiglu;
  return p;
}

TEST(CudaPlan, OfSwigluHasTilesOfGateAndUp) {
  for (const std::int64_t m : {1, 16, 200, 1000, 4096}) {
    const Problem p = gated_problem(m);
    for (const Path wanted : {Path::fused, Path::medium, Path::unfused}) {
      const Plan plan = make_plan(p, cuda_machine(), path(wanted));
      EXPECT_EQ(plan.path, wanted);
      EXPECT_TRUE(can_gate(gemm_of(plan.kernel->way).tile)) << text_of(plan);
      EXPECT_NE(plan.reason.find("gate and up in one"), std::string::npos) << plan.reason;
      EXPECT_EQ(plan.reason.find("in turn"), std::string::npos) << plan.reason;
    }
    EXPECT_TRUE(can_gate(gemm_alone(p, 0, cuda_machine()).tile)) << m;
  }
}

/// As one product over the columns of both: not twice that of one.
TEST(CudaPlan, OfSwigluIsOneProductOfBothWidths) {
  for (const std::int64_t m : {256, 333, 1024, 4096, 16384}) {
    const GemmPlan both = gemm_alone(gated_problem(m), 0, cuda_machine());
    const GemmPlan wide = gemm_alone(gather_problem(m, {2 * 7168}), 0, cuda_machine());
    EXPECT_LT(both.predicted_us, 1.05 * wide.predicted_us) << m;
    const GemmProblem product = product_of(gated_problem(m), 0, m);
    EXPECT_EQ(product, (GemmProblem{m, 2 * 7168, 8192, DType::bf16, true}));
    EXPECT_EQ(product.out_n(), 7168);
    const schedule::GemmOrder order = work_of(both, product).order;
    const int columns = both.tile.worker_columns() / 2;  // of the result, a tile
    EXPECT_EQ(both.tile.swapped ? order.rows : order.cols, (7168 + columns - 1) / columns);
  }
}

TEST(CudaPlan, ProductsWithoutAGateAreOfOneWeightEach) {
  const Problem p = gather_problem(64, {512, 1024});
  EXPECT_EQ(product_of(p, 1, 7), (GemmProblem{7, 1024, 8192, DType::bf16, false}));
  EXPECT_THROW(static_cast<void>(product_of(p, 2, 7)), std::out_of_range);
}

TEST(CudaPlan, UpToFourWeightsHaveOneKernel) {
  const auto how = [](std::int64_t m, std::size_t weights) {
    const Problem p = gather_problem(m, std::vector<std::int64_t>(weights, 1024));
    const Plan plan = make_plan(p, cuda_machine());
    const bool one = is_merged(p, way_of<AgGemmWay>(plan).gemm.tile);
    EXPECT_NE(plan.reason.find(one ? "weights in one" : "weights in turn"), std::string::npos)
        << plan.reason;
    return one;
  };
  for (const std::int64_t m : {16, 1500})
    for (const std::size_t weights : {2U, 3U, 4U}) EXPECT_TRUE(how(m, weights)) << m << weights;
  EXPECT_FALSE(how(16, 5));
}

TEST(CudaPlan, TilesOfGateAndUpCanBeHalved) {
  int columns = 0, blocks = 0;
  for (const GemmTile& t : kGemmTiles) {
    if (!can_gate(t)) continue;
    EXPECT_LE(t.cluster_rows, 2) << t.name;
    EXPECT_NE(t.name, "t192");
    if (t.swapped) {
      EXPECT_EQ(t.blocks, 2) << t.name;
      ++blocks;
    } else {
      EXPECT_EQ(t.width % 16, 0) << t.name;
      ++columns;
    }
  }
  EXPECT_EQ(columns, 10);
  EXPECT_EQ(blocks, 6);
}

TEST(CudaPlan, ShapesBeyondTheIntegersOfKernelsAreRefused) {
  const std::int64_t huge = std::int64_t{1} << 40;
  const std::int64_t most = std::int64_t{1} << 31;
  const auto wrong = [](Op op, int ranks, std::int64_t m, std::int64_t n, std::int64_t k) {
    return error_of(cuda_problem(op, ranks, m, n, k));
  };
  EXPECT_EQ(wrong(Op::ag_gemm, 1, 256, huge, 64),
            "ag_gemm: n on GPUs: got 1099511627776, expected at most 2147479552");
  EXPECT_EQ(wrong(Op::gemm_rs, 2, most, 65536, 64),
            "gemm_rs: m on GPUs: got 2147483648, expected at most 2147479552");
  EXPECT_EQ(wrong(Op::gemm_ar, 2, huge, 64, 64),
            "gemm_ar: m on GPUs: got 1099511627776, expected at most 2147479552");
  EXPECT_EQ(wrong(Op::gemm_ar, 2, 64, 64, most),
            "gemm_ar: k on GPUs: got 2147483648, expected at most 2147479552");
  EXPECT_EQ(wrong(Op::gemm_rs, 2, most - 8192, 65536, 64),
            "gemm_rs: m 2147475456 x n 65536 on GPUs: got 1099507433472 tiles of 16x8, expected "
            "at most 2147483647");
  Problem parts = cuda_problem(Op::ag_gemm, 2, 64, most / 2, 64);
  parts.n.push_back(most / 2);
  EXPECT_EQ(error_of(parts),
            "ag_gemm: n of all weights on GPUs: got 2147483648, expected at most 2147479552");
}

TEST(CudaPlan, TheLargestShapesHavePlans) {
  const std::int64_t most = (std::int64_t{1} << 31) - 4096;
  for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar})
    for (const int ranks : {1, 2, 8})
      for (const Problem& p :
           {cuda_problem(op, ranks, 64, most, 64), cuda_problem(op, ranks, 64, 64, most),
            cuda_problem(op, ranks, 524288, 524280, 64)})
        EXPECT_EQ(error_of(p), "no error") << name_of(op) << " m " << p.m << " n " << p.n[0];
}

TEST(CudaPlan, ErrorsNameWhatThereIs) {
  Problem p = gather_problem(64);
  p.dtype = DType::fp32;
  EXPECT_NE(error_of(p).find("got fp32, expected bf16 or fp16"), std::string::npos);
  p = gather_problem(64, {12});
  EXPECT_NE(error_of(p).find("n on GPUs: got 12, expected a multiple of 8"), std::string::npos);
  EXPECT_NE(error_of(gated_problem(64, 12)).find("got 12, expected a multiple"), std::string::npos);
  p = gather_problem(64);
  p.k = 20;
  EXPECT_NE(error_of(p).find("k on GPUs: got 20"), std::string::npos);
  p = gather_problem(64);
  p.ranks = 9;
  EXPECT_NE(error_of(p).find("got 9, expected at most 8"), std::string::npos);
}

TEST(CudaPlan, ErrorsOfOptions) {
  const Problem p = gather_problem(4096);
  PlanOptions o;
  o.route = RouteKind::two_level;
  EXPECT_NE(error_of(p, o).find("got two_level, expected mesh or ring"), std::string::npos);
  for (const Transport transport : {Transport::pull, Transport::store}) {
    const auto wrong = "got " + std::string(name_of(transport)) + ", expected push";
    o = {};
    o.route = RouteKind::ring;
    o.transport = transport;
    EXPECT_NE(error_of(p, o).find("over the ring: " + wrong), std::string::npos);
    o = path(Path::medium);
    o.transport = transport;
    EXPECT_NE(error_of(p, o).find("with path medium: " + wrong), std::string::npos);
  }
  o = path(Path::medium);
  o.route = RouteKind::ring;
  EXPECT_NE(error_of(p, o).find("with path medium: got ring, expected mesh"), std::string::npos);
  o = {};
  o.transport = Transport::pull;
  o.straddle = true;
  EXPECT_NE(error_of(p, o).find("no plan on GPUs has"), std::string::npos);
  o = path(Path::fused);
  o.transport = Transport::store;  // idle warps do not send so many rows
  EXPECT_NE(error_of(p, o).find("no plan on GPUs has"), std::string::npos);
  o = {};
  o.chunk_rows = 0;
  EXPECT_NE(error_of(p, o).find("got 0, expected at least 1 "), std::string::npos);
  o = {};
  o.tile_m = 100;
  EXPECT_NE(error_of(p, o).find("tile 100x0"), std::string::npos);
}

TEST(CudaPlan, OfCpuRanksPrintsAsBefore) {
  const std::string text = text_of(make_plan(gather_problem(64), cpu_machine(4, 1)));
  EXPECT_EQ(text.find(';'), std::string::npos) << text;
  EXPECT_NE(text_of(cuda_machine()).find("GPUs, 132 multiprocessors"), std::string::npos);
}

}  // namespace
}  // namespace tilelace::plan
