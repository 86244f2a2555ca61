// SPDX-License-Identifier: Apache-2.0
// Tensors that live beside their host copies, as they do for ranks on GPUs. Device buffers of CPU
// ranks are host memory, so that no GPU is needed.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ranks.h"
#include "record.h"
#include "verify.h"

namespace tilelace::cli {
namespace {

constexpr int kPlacedRanks = 2;
constexpr std::int64_t kRows = 70;

/// What the checks say when calls work on the buffers; `fetches`: results are brought back.
RankPart verify(bool fetches) {
  Workload work;
  work.ranks = kPlacedRanks;
  work.dtype = DType::bf16;
  work.sizes = {kRows};
  work.config.layers = 1;
  work.jobs = {{plain_gemm(Op::ag_gemm, {48}, 96, kPlacedRanks), 0}};
  const Job& job = work.jobs[0];
  std::vector<RankPart> parts(kPlacedRanks);
  run_ranks({kPlacedRanks, false, {}},
            [&](Communicator& c, const Send&) {
              const Verifier verifier(work, job, c.rank(), [] {});
              RankPart& part = parts[static_cast<std::size_t>(c.rank())];
              const GpuPlace place{&c, nullptr};
              RankWeights w = model_weights(work, job, c.rank());
              move_to_gpu(w, place);
              const std::vector<Preparation> list{
                  {problem_of(job.gemm, kRows, work.dtype), w.weight_views, {}}};
              c.prepare(list);
              CallTensors t(work, job, c.rank(), kRows, &place);
              t.fill_random();
              const auto run = [&](std::size_t) {
                t.poison();
                t.call(c, w, {}, false, false);
                if (fetches) t.settle();
              };
              verifier.check_fp64(t, {query_plan(c, list[0].problem)}, run, part);
            },
            {[](int, const std::string&) {}, [] {}});
  return parts[0].pass ? parts[1] : parts[0];
}

TEST(CliPlace, CallsWorkOnTheCopies) {
  const RankPart part = verify(true);
  EXPECT_TRUE(part.pass) << part.complaint;
}

TEST(CliPlace, WithoutFetchingTheHostHoldsPoison) { EXPECT_FALSE(verify(false).pass); }

TEST(CliPlace, RecordsOfGpusSaySo) {
  Workload work;
  work.ranks = 2;
  work.sizes = {16};
  work.config.layers = 1;
  work.jobs = {{plain_gemm(Op::ag_gemm, {64}, 64, 2), 0}};
  work.device = Device::cuda;
  work.gpus.name = "NVIDIA H200";
  work.gpus.driver = "580.1";
  std::vector<RankPart> parts(2);
  for (RankPart& p : parts)
    for (const Way w : {Way::gemm, Way::collective, Way::unfused, Way::fused})
      p.samples[static_cast<std::size_t>(w)].push_back({0, 1e-5});
  parts[1].samples[static_cast<std::size_t>(Way::fused)][0].end = 2e-5;
  const auto j = nlohmann::json::parse(record_line(work, join(work, cuda_machine(), parts)));
  EXPECT_EQ(j["backend"], "cuda");
  EXPECT_EQ(j["mode"], "graph");
  EXPECT_EQ(j["device"], "NVIDIA H200");
  EXPECT_EQ(j["driver"], "580.1");
  EXPECT_TRUE(j["medium_us"].is_null());
  EXPECT_NEAR(j["fused_us"].get<double>(), 20, 1e-9);  // the slowest rank's
}

}  // namespace
}  // namespace tilelace::cli
