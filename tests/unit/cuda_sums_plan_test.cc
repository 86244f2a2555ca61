// SPDX-License-Identifier: Apache-2.0
// Plans of a fused gemm_ar whose ranks keep their partials; no GPU is needed.
#include <sstream>

#include "cuda_plans.h"
#include "plan/base/schedules.h"
#include "plan/gpu/gpu_plan.h"

namespace tilelace::plan {
namespace {

PlanOptions by_switch() {
  PlanOptions o;
  o.transport = Transport::multimem;
  return o;
}

Machine with_multicast(Multicast multicast = Multicast::usable) {
  Machine m = cuda_machine();
  m.multicast = multicast;
  return m;
}

TEST(CudaSumsPlan, PartialsAreKeptAndPulledAmongManyToo) {
  // Products shorter than what is sent: partials of several peers pile up beyond L2.
  Problem wide = sum_problem(Op::gemm_ar, 8192, 4);
  wide.n = {8192};
  wide.k = 2048;
  EXPECT_EQ(make_plan(wide, cuda_machine()).transport, Transport::pull);
  wide.m = 256;
  EXPECT_EQ(make_plan(wide, cuda_machine()).transport, Transport::store);
  PlanOptions o = path(Path::fused);
  o.transport = Transport::pull;
  for (const int ranks : {1, 2, 3, 4, 8})
    for (const std::int64_t m : {1, 300, 4096}) {
      const Problem p = sum_problem(Op::gemm_ar, m, ranks);
      const Plan plan = make_plan(p, cuda_machine(), o);
      EXPECT_TRUE(can_pull(gemm_of(plan.kernel->way).tile)) << tile_of(plan);
      const auto& sums = way_of<KeptPartialsWay>(plan);
      EXPECT_EQ(sums.shots, ranks <= 2 ? 1 : 2);
      EXPECT_FALSE(sums.by_switch);
      EXPECT_TRUE(says(plan.reason, "where that is symmetric memory")) << plan.reason;
      EXPECT_GE(plan.staging_bytes, 4 * gemm_sums_counts(p) + gemm_sums_staging_bytes(p));
    }
}

TEST(CudaSumsPlan, PrintsSayInHowManyShotsSumsAreMade) {
  PlanOptions o = path(Path::fused);
  o.transport = Transport::pull;
  for (const int ranks : {2, 4}) {
    const Plan plan = make_plan(sum_problem(Op::gemm_ar, 4096, ranks), cuda_machine(), o);
    std::ostringstream print;
    print << plan;
    EXPECT_TRUE(says(print.str(), ranks == 2 ? " shots 1 " : " shots 2 ")) << print.str();
  }
  std::ostringstream stored;
  o.transport = Transport::store;
  stored << make_plan(sum_problem(Op::gemm_ar, 4096, 4), cuda_machine(), o);
  EXPECT_FALSE(says(stored.str(), "shots")) << stored.str();
}

TEST(CudaSumsPlan, TheSwitchAddsOnlyWhereItIsAskedFor) {
  for (const std::int64_t m : {1, 8, 64, 255, 1024, 4096, 16384})
    for (const int ranks : {1, 2, 3, 4, 8}) {
      const Problem p = sum_problem(Op::gemm_ar, m, ranks);
      const Plan chosen = make_plan(p, with_multicast());
      EXPECT_NE(chosen.transport, Transport::multimem);
      EXPECT_EQ(chosen, make_plan(p, cuda_machine()));
      const Plan plan = make_plan(p, with_multicast(), by_switch());
      EXPECT_EQ(plan.transport, Transport::multimem);
      EXPECT_EQ(plan.path, Path::fused);
      EXPECT_TRUE(can_multimem(gemm_of(plan.kernel->way).tile)) << tile_of(plan);
      EXPECT_EQ(way_of<KeptPartialsWay>(plan).gemm.split_tiles, 0);
      EXPECT_TRUE(says(plan.reason, "the switch's order")) << plan.reason;
      EXPECT_EQ(plan.staging_bytes, chosen.staging_bytes);
      EXPECT_TRUE(way_of<KeptPartialsWay>(plan).by_switch);
    }
  EXPECT_EQ(make_plan(sum_problem(Op::gemm_ar, 0), with_multicast(), by_switch()).transport,
            Transport::multimem);
}

TEST(CudaSumsPlan, WithoutMulticastTheSwitchIsRefusedByWhatIsMissing) {
  const auto refused = [](Multicast multicast, std::int64_t m) {
    return error_of(sum_problem(Op::gemm_ar, m), by_switch(), with_multicast(multicast));
  };
  for (const std::int64_t m : {0, 512}) {
    EXPECT_EQ(refused(Multicast::not_asked, m),
              "gemm_ar: transport multimem needs a communicator with multicast on devices that "
              "support it: the communicator was made without the option multicast");
    EXPECT_TRUE(says(refused(Multicast::not_allowed, m), "TILELACE_MULTICAST=1 is not in the env"));
    EXPECT_TRUE(says(refused(Multicast::not_supported, m), "MULTICAST_SUPPORTED is 0"));
  }
}

TEST(CudaSumsPlan, CountsHaveRoomForEveryTile) {
  for (const std::int64_t m : {1, 300, 5000}) {
    const Problem p = sum_problem(Op::gemm_ar, m);
    for (const bool by_switch : {false, true})
      for (const KeptPartialsWay& plan :
           by_switch ? gemm_multimem_candidates(p) : gemm_sums_candidates(p)) {
        const auto order = work_of(plan.gemm, {p.m, p.n[0], p.k, p.dtype}).order;
        EXPECT_LE(2 * order.tiles() * plan.gemm.tile.cluster(), gemm_sums_counts(p));
        EXPECT_EQ(plan.by_switch, by_switch);
      }
  }
}

TEST(CudaSumsPlan, ErrorsOfTheSwitchNameWhatThereIs) {
  const Problem rs = sum_problem(Op::gemm_rs, 512), ar = sum_problem(Op::gemm_ar, 512);
  PlanOptions o = by_switch();
  EXPECT_TRUE(says(error_of(rs, o), "got multimem, which is for gemm_ar"));
  EXPECT_TRUE(says(error_of(ar, o), "the communicator was made without the option multicast"));
  const auto refused = [&](const PlanOptions& options) {
    return error_of(ar, options, with_multicast());
  };
  o.path = Path::unfused;
  EXPECT_TRUE(says(refused(o), "path with transport multimem: got unfused, expected fused"));
  o = by_switch();
  o.partials = DType::fp32;
  EXPECT_TRUE(says(refused(o), "got fp32, expected the operands' type, bf16"));
  o = by_switch();
  o.chunk_rows = 8;
  EXPECT_TRUE(says(refused(o), "chunk_rows with transport multimem: got 8, expected none"));
}

}  // namespace
}  // namespace tilelace::plan
