// SPDX-License-Identifier: Apache-2.0
// The command's --backend, on machines without GPUs.
#include <gtest/gtest.h>

#include "backend/cuda_support.h"
#include "cli_fixture.h"
#include "job.h"
#include "row.h"
#include "tilelace/error.h"

namespace tilelace::cli {
namespace {

TEST(CliBackend, UnknownOnesAreRefused) {
  for (const char* command : {"run --model minilm-l6 --m 1", "bench ag_gemm --m 1 --n 8 --k 8",
                              "plan --model minilm-l6 --m 1"}) {
    const Finished f = run_command(std::string(command) + " --backend gpu");
    EXPECT_EQ(f.code, 2) << command;
    EXPECT_NE(f.err.find("--backend: got \"gpu\", expected cpu or cuda"), std::string::npos)
        << f.err;
  }
}

TEST(CliBackend, WithoutGpusSaysSo) {
  const std::string why = cuda_missing();
  if (why.empty()) GTEST_SKIP() << "there is a GPU";
  // 2: a build without CUDA, 3: no driver.
  const int code = why.find("built without CUDA") != std::string::npos ? 2 : 3;
  for (const char* line : {"run --model qwen2.5-0.5b --m 8 --backend cuda",
                           "bench ag_gemm --m 8 --n 64 --k 64 --backend cuda --json -"}) {
    const Finished f = run_command(line);
    EXPECT_EQ(f.code, code) << f.err;
    EXPECT_NE(f.err.find("CUDA"), std::string::npos) << f.err;
    EXPECT_EQ(f.out, "");
  }
  const Finished doctor = run_command("doctor");
  EXPECT_EQ(doctor.code, 0);
  EXPECT_NE(doctor.out.find("GPU ranks          no: "), std::string::npos) << doctor.out;
}

TEST(CliBackend, PlansNeedNoGpu) {
  const Finished f =
      run_command("plan ag_gemm --tp 4 --m 16,4096 --n 28672 --k 8192 --backend cuda --tuning off");
  EXPECT_EQ(f.code, 0) << f.err;
  for (const char* part :
       {"machine: GPUs, 132 multiprocessors", "  plan     ag_gemm fused mesh push", " grid ",
        "  why      fastest of ", "  not      unfused ", "gathered m 4096 * row 16384"})
    EXPECT_NE(f.out.find(part), std::string::npos) << part << f.out;
}

TEST(CliBackend, PlansOfModelsAreOfAllOps) {
  const Finished f =
      run_command("plan --model llama3.1-8b --tp 4 --m 1024 --backend cuda --tuning off");
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("gate_up: ag_gemm"), std::string::npos) << f.out;
  EXPECT_NE(f.out.find("act swiglu"), std::string::npos) << f.out;
  EXPECT_NE(f.out.find(", gate and up in one)"), std::string::npos) << f.out;
  EXPECT_NE(f.out.find("down: gemm_rs"), std::string::npos) << f.out;
  EXPECT_NE(f.out.find("down: gemm_ar"), std::string::npos) << f.out;
}

TEST(CliBackend, PlansAreReadAsTheyArePrinted) {
  const std::string line = "plan gemm_rs --tp 4 --m 1024 --n 8192 --k 8192 --backend cuda --plan ";
  const auto plan_of = [](const Finished& f) {
    const std::size_t at = f.out.find("  plan     ");
    if (at == std::string::npos) return f.err;
    return f.out.substr(at + 11, f.out.find("\n  why ", at) - at - 11);
  };
  const std::string printed = plan_of(run_command(line + "path=medium"));
  EXPECT_EQ(plan_of(run_command(line, 100, printed)), printed);
  // A long one is printed in two lines, and may be copied so.
  const std::string gather =
      "plan ag_gemm --tp 4 --m 4096 --n 28672 --k 8192 --backend cuda --plan ";
  const std::string lines = plan_of(run_command(gather + "path=fused"));
  EXPECT_NE(lines.find('\n'), std::string::npos) << lines;
  EXPECT_EQ(plan_of(run_command(gather, 100, lines)), lines);
  for (const char* wrong : {"gemm_rs fused mesh store", "gemm_rs by magic; c128"}) {
    const Finished f = run_command(line, 100, wrong);
    EXPECT_EQ(f.code, 2) << f.out;
    EXPECT_NE(f.err.find("plan: \""), std::string::npos) << f.err;
  }
  const Finished cpu = run_command("bench gemm_rs --m 8 --n 64 --k 64 --plan", 100, printed);
  EXPECT_NE(cpu.err.find("a printed plan is for GPU ranks"), std::string::npos) << cpu.err;
}

TEST(CliBackend, PlansCopyPartialsWhenAsked) {
  const Finished f = run_command(
      "plan gemm_rs --tp 4 --m 1024 --n 8192 --k 8192 --plan path=medium --backend cuda");
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("  plan     gemm_rs medium mesh push"), std::string::npos) << f.out;
}

TEST(CliBackend, PlansSayWhatThereIs) {
  const Finished reduce =
      run_command("plan gemm_ar --m 8 --n 64 --k 64 --plan path=medium --backend cuda");
  EXPECT_EQ(reduce.code, 2);
  EXPECT_NE(reduce.err.find("got medium, expected fused or unfused"), std::string::npos)
      << reduce.err;
  for (const char* option : {"--link 25,5", "--workers 4"}) {
    const Finished f =
        run_command(std::string("plan ag_gemm --m 8 --n 64 --k 64 --backend cuda ") + option);
    EXPECT_EQ(f.code, 2) << f.out;
    EXPECT_NE(f.err.find("--link, --workers: CPU ranks only"), std::string::npos) << f.err;
  }
  const Finished wide = run_command("plan ag_gemm --m 8 --n 64 --k 64 --dtype fp32 --backend cuda");
  EXPECT_EQ(wide.code, 2);
  EXPECT_NE(wide.err.find("got fp32, expected bf16 or fp16"), std::string::npos) << wide.err;
}

TEST(CliBackend, GpusChangeTheBaselines) {
  const std::vector<Path> both{Path::medium, Path::unfused};
  EXPECT_EQ(baseline_paths(Device::cuda, Op::ag_gemm), both);
  EXPECT_EQ(baseline_paths(Device::cuda, Op::gemm_rs), both);
  EXPECT_EQ(baseline_paths(Device::cuda, Op::gemm_ar), std::vector<Path>{Path::unfused});
  EXPECT_EQ(baseline_paths(Device::cpu, Op::gemm_rs), both);
  PlanOptions tiled;
  tiled.tile_m = 64;
  EXPECT_FALSE(baseline_options(tiled, Path::unfused, Device::cuda).tile_m);
  EXPECT_TRUE(baseline_options(tiled, Path::unfused, Device::cpu).tile_m);
}

TEST(CliBackend, SeveralPlansMakeAJobEach) {
  Workload work;
  work.ranks = 2;
  work.sizes = {256};
  work.jobs.push_back({plain_gemm(Op::ag_gemm, {64}, 64, 2), 0});
  work.skip = {true};
  take_plans({"transport=push", "route=ring,chunk=64", "transport=pull", "transport=nccl"}, work);
  ASSERT_EQ(work.jobs.size(), 4U);
  const auto plan = [&](std::size_t job) {
    return empty_row(work, cuda_machine(), static_cast<int>(job)).plan;
  };
  EXPECT_EQ(plan(0).transport, Transport::push);
  EXPECT_EQ(plan(1).chunk_rows, 64);
  EXPECT_EQ(plan(1).route, RouteKind::ring);
  EXPECT_EQ(plan(2).transport, Transport::pull);
  EXPECT_EQ(plan(3).transport, Transport::nccl);
  EXPECT_EQ(named_row(work, 1).label, "ring 64");
  EXPECT_EQ(work.skip, std::vector<bool>(4, true));
  EXPECT_THROW(take_plans({"transport=post", "transport=push"}, work), Error);
}

TEST(CliBackend, OnePlanIsForAllJobs) {
  Workload work;
  work.sizes = {256};
  work.jobs.assign(2, {plain_gemm(Op::ag_gemm, {64}, 64, 2), 0});
  take_plans({"transport=pull"}, work);
  EXPECT_EQ(work.jobs.size(), 2U);
  EXPECT_EQ(work.options.transport, Transport::pull);
  EXPECT_EQ(named_row(work, 0).label, "");
}

}  // namespace
}  // namespace tilelace::cli
