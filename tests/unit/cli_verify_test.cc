// SPDX-License-Identifier: Apache-2.0
// The check of the check: a result that lacks one rank's part, or has one wrong element, fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "ranks.h"
#include "verify.h"

namespace tilelace::cli {
namespace {

constexpr int kRanks = 3;

struct Outcome {
  bool pass = true, exact = true;
};

/// What spoils a rank's tensors or weights.
using Spoil = std::function<void(int rank, RankWeights&)>;

Workload work_of(Op op, DType dtype) {
  Workload work;
  work.ranks = kRanks;
  work.dtype = dtype;
  work.sizes = {70};
  work.config.layers = 1;
  work.jobs = {{plain_gemm(op, {48}, 96, kRanks), 0}};
  return work;
}

Outcome verify(const Workload& work, const Spoil& spoil) {
  std::vector<Outcome> outcomes(kRanks);
  const Job& job = work.jobs[0];
  run_ranks({kRanks, false, {}},
            [&](Communicator& c, const Send&) {
              const int rank = c.rank();
              const Verifier verifier(work, job, rank, [] {});
              RankPart part;
              for (const bool integers : {true, false}) {
                RankWeights w =
                    integers ? integer_weights(work, job, rank) : model_weights(work, job, rank);
                spoil(rank, w);
                const std::vector<Preparation> list{
                    {problem_of(job.gemm, 70, work.dtype), w.weight_views, {}}};
                c.prepare(list);
                CallTensors t(work, job, rank, 70);
                integers ? t.fill_integers() : t.fill_random();
                const auto run = [&](std::size_t) {
                  t.poison();
                  t.call(c, w, {}, integers, false);
                };
                if (integers) {
                  run(0);
                  verifier.check_integers(t, part);
                } else {
                  verifier.check_fp64(t, {query_plan(c, list[0].problem)}, run, part);
                }
              }
              outcomes[static_cast<std::size_t>(rank)] = {part.pass, part.exact};
            },
            {[](int, const std::string&) {}, [] {}});
  Outcome all;
  for (const Outcome& o : outcomes) all.pass = all.pass && o.pass, all.exact = all.exact && o.exact;
  return all;
}

class CliVerify : public testing::TestWithParam<std::tuple<Op, DType>> {};

TEST_P(CliVerify, TakesWhatIsRight) {
  const auto [op, dtype] = GetParam();
  const Outcome o = verify(work_of(op, dtype), [](int, RankWeights&) {});
  EXPECT_TRUE(o.pass);
  EXPECT_TRUE(o.exact);
}

TEST_P(CliVerify, FailsWithoutOneRanksPart) {
  const auto [op, dtype] = GetParam();
  for (int lost = 0; lost < kRanks; ++lost) {
    const Outcome o = verify(work_of(op, dtype), [&](int rank, RankWeights& w) {
      const TensorView& v = w.weight_views[0];
      if (rank == lost)
        std::memset(v.data, 0, static_cast<std::size_t>(v.rows * v.stride) * size_of(v.dtype));
    });
    EXPECT_FALSE(o.pass) << lost;
    EXPECT_FALSE(o.exact) << lost;
  }
}

TEST_P(CliVerify, FailsWithTwoRowsOfAWeightSwapped) {
  const auto [op, dtype] = GetParam();
  const Outcome o = verify(work_of(op, dtype), [](int rank, RankWeights& w) {
    const TensorView& v = w.weight_views[0];
    const auto bytes = static_cast<std::size_t>(v.stride) * size_of(v.dtype);
    auto* first = static_cast<char*>(v.data);
    if (rank == 1) std::swap_ranges(first, first + bytes, first + 3 * bytes);
  });
  EXPECT_FALSE(o.pass);
  EXPECT_FALSE(o.exact);
}

/// The allowance for evaluating an fp32 activation must not hide a lost part.
TEST(CliVerifyActivation, StillFailsWithoutOneRanksPart) {
  for (const Activation activation : {Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    Workload work = work_of(Op::gemm_rs, DType::fp32);
    work.jobs[0].gemm.activation = activation;
    EXPECT_TRUE(verify(work, [](int, RankWeights&) {}).pass);
    const Outcome o = verify(work, [](int rank, RankWeights& w) {
      const TensorView& v = w.weight_views[0];
      if (rank == 2) std::memset(v.data, 0, static_cast<std::size_t>(v.rows * v.stride) * 4);
    });
    EXPECT_FALSE(o.pass) << name_of(activation);
  }
}

std::string test_name(const testing::TestParamInfo<std::tuple<Op, DType>>& info) {
  return std::string(name_of(std::get<0>(info.param))) + "_" +
         std::string(name_of(std::get<1>(info.param)));
}

INSTANTIATE_TEST_SUITE_P(Ops, CliVerify,
                         testing::Combine(testing::Values(Op::ag_gemm, Op::gemm_rs, Op::gemm_ar),
                                          testing::Values(DType::bf16, DType::fp32)),
                         test_name);

TEST(CliVerifyRows, SamplesEveryShardsFirstAndLastRow) {
  EXPECT_EQ(sample_rows(5, 3).size(), 5U);
  EXPECT_TRUE(sample_rows(0, 3).empty());
  const auto rows = sample_rows(1000, 3);
  EXPECT_GE(rows.size(), 64U);
  for (const std::int64_t edge : {0, 333, 334, 666, 667, 999})
    EXPECT_TRUE(std::binary_search(rows.begin(), rows.end(), edge)) << edge;
}

TEST(CliVerifyRows, IntegerSumsStayExact) {
  for (const int ranks : {1, 2, 8, 64}) {
    const auto gemm = plain_gemm(Op::gemm_rs, {8}, 64 * ranks, ranks);
    for (std::int64_t row = 0; row < 50; ++row) {
      std::size_t terms = 0;
      for (int p = 0; p < ranks; ++p) {
        const auto part = integer_row(gemm, DType::bf16, row, p);
        EXPECT_GE(part.size(), 1U);
        for (const Term& t : part) EXPECT_EQ(t.col / 64, p);
        terms += part.size();
      }
      EXPECT_LE(terms, 256U);
    }
  }
}

TEST(CliVerifyGuards, ShowStrayWrites) {
  GuardedMatrix m(DType::bf16, 3, 5);
  m.poison();
  EXPECT_TRUE(m.intact());
  auto* data = static_cast<std::uint16_t*>(m.view().data);
  data[2 * m.view().stride + 4] = 0;
  EXPECT_TRUE(m.intact());
  data[2 * m.view().stride + 5] = 0;
  EXPECT_FALSE(m.intact());
  m.poison();
  data[3 * m.view().stride] = 0;
  EXPECT_FALSE(m.intact());
}

}  // namespace
}  // namespace tilelace::cli
