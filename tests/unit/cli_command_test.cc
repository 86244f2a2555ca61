// SPDX-License-Identifier: Apache-2.0
// Exit codes, golden texts, records and reports of the built command.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli_fixture.h"

namespace tilelace::cli {
namespace {

struct BadInput {
  const char* name;
  const char* line;
  const char* text;  ///< the last part of standard error
};

class CliBadInput : public testing::TestWithParam<BadInput> {};

TEST_P(CliBadInput, ExitsTwoWithAText) {
  const BadInput& bad = GetParam();
  const Finished f = run_command(bad.line);
  EXPECT_EQ(f.code, 2) << f.err;
  EXPECT_NE(f.err.find(bad.text), std::string::npos) << f.err;
}

const BadInput kBadInputs[] = {
    {"Nothing", "", "A subcommand is required"},
    {"UnknownCommand", "fly", "A subcommand is required"},
    {"UnknownOption", "doctor --hard", "The following argument was not expected: --hard"},
    {"RunWithoutModel", "run --m 1", "--model is required"},
    {"RunWithoutM", "run --model minilm-l6", "--m is required"},
    {"UnknownModel", "run --model nope --m 1", "model: name, got \"nope\", expected one of gpt3"},
    {"NoSuchFolder", "run --model ./nope --m 1", "model: name, got \"./nope\", expected one of"},
    {"TpNotADivisor", "run --model minilm-l6 --tp 5 --m 1",
     "tilelace: layers: tp of minilm-l6, got 5, which does not split its 12 heads, expected one of "
     "1, 2, 3, 4, 6, 12\n"},
    {"TpZero", "run --model minilm-l6 --tp 0 --m 1", "Value 0 not in range 1 to 64"},
    {"TpTooLarge", "run --model minilm-l6 --tp 65 --m 1", "Value 65 not in range 1 to 64"},
    {"NegativeM", "run --model minilm-l6 --m -1",
     "tilelace: --m: got \"-1\", expected a whole number from 0 to 1099511627776\n"},
    {"EmptyPartOfM", "run --model minilm-l6 --m 1,,2",
     "tilelace: --m: got \"1,,2\", expected a list without empty parts\n"},
    {"HugeM", "run --model minilm-l6 --m 1000000000", "tilelace: memory: these sizes need "},
    {"OverflowingSizes", "bench gemm_rs --m 1099511627776 --n 1099511627776 --k 4",
     "its staging would need more than 64 bits of bytes\n"},
    {"OverflowingStaging", "plan gemm_ar --tp 2 --m 1099511627776 --n 1000000 --k 64 --dtype fp32",
     "its staging would need more than 64 bits of bytes\n"},
    {"LayerOutOfRange", "run --model minilm-l6 --m 1 --layer 6",
     "tilelace: --layer: got \"6\", expected a whole number from 0 to 5\n"},
    {"UnknownOp", "run --model minilm-l6 --m 1 --op gemm",
     "tilelace: --op: got \"gemm\", expected ag_gemm, gemm_rs, gemm_ar\n"},
    {"UnknownDtype", "run --model minilm-l6 --m 1 --dtype fp8",
     "tilelace: --dtype: got \"fp8\", expected bf16, fp16, fp32\n"},
    {"NoLink", "run --model minilm-l6 --m 1 --link 0",
     "tilelace: --link: bandwidth: got 0 GB/s, expected more than 0, to 1e6\n"},
    {"NoTimeout", "run --model minilm-l6 --m 1 --timeout 0", "--timeout: Value 0 not in range"},
    {"NanTimeout", "run --model minilm-l6 --m 1 --timeout nan", "Value nan not in range 0.001 to"},
    {"NanGrace", "launch --ranks 1 --grace nan true", "--grace: Value nan not in range 0 to 3600"},
    {"NanNoise", "simulate --machine h200x4 --tp 4 --m 8 --n 64 --k 64 --noise nan",
     "--noise: Value nan not in range 0 to 10"},
    {"CheckedProcesses", "run --model minilm-l6 --m 1 --checked --processes",
     "tilelace: --checked: got --processes, expected ranks as threads\n"},
    {"CandidatesOfCpuRanks", "bench ag_gemm --m 1 --n 8 --k 8 --candidates 2",
     "tilelace: --candidates, --kinds: got --backend cpu, expected cuda\n"},
    {"BenchWithoutRows", "bench ag_gemm --n 8 --k 8", "bench: got no --m, expected an op and --m"},
    {"PlanWithoutRows", "plan ag_gemm --n 8 --k 8", "plan: got no --m, expected it, or --rows"},
    {"RowsAndSizes", "bench --rows rows.txt --m 1", "--rows: got it with an op, --model"},
    {"RowsNowhere", "plan --rows no/rows.txt", "--rows: no/rows.txt, got \"No such file"},
    {"UnknownOpOfBench", "bench gemm --m 1 --n 8 --k 8",
     "tilelace: bench: op, got \"gemm\", expected a product (ag_gemm, gemm_rs or gemm_ar), an MLP "
     "(mlp_rs, mlp_ar) or collectives (all_reduce, all_gather, reduce_scatter, all_to_all)\n"},
    {"CollectivesWithoutSizes", "bench all_reduce", "tilelace: bench: got no --size, expected it"},
    {"CollectivesOfRows", "bench all_reduce --size 1K --m 8", "bench: got --m with all_reduce"},
    {"CollectivesBesideProducts", "bench all_reduce,ag_gemm --size 1K", "collectives, not both\n"},
    {"ProductsOfBytes", "bench ag_gemm --m 1 --n 8 --k 8 --size 1K", "bench: got --size, expected"},
    {"CollectivesInPlace", "bench all_to_all --size 1K --in-place", "--in-place: got all_to_all"},
    {"CollectivesBaselines", "bench all_reduce --size 1K --baselines cublas",
     "--baselines: got \"cublas\", expected nccl, nccl_registered, nccl_window\n"},
    {"CollectivesTooLarge", "bench all_reduce --size 900G", "memory: these sizes need 7.0 TiB"},
    {"BriefOfCpuRanks", "bench ag_gemm --m 1 --n 8 --k 8 --brief", "--brief: got --backend cpu"},
    {"BaselinesOfCpuRanks", "bench ag_gemm --m 1 --n 8 --k 8 --baselines nccl",
     "tilelace: --baselines: got --backend cpu, expected cuda\n"},
    {"BaselinesUnknown", "bench ag_gemm --m 1 --n 8 --k 8 --baselines mpi",
     "tilelace: --baselines: got \"mpi\", expected cublas, nccl, nccl_registered, nccl_window, "
     "beside\n"},
    {"MlpOfCpuRanks", "bench mlp_rs --m 2 --n 8 --k 8",
     "tilelace: mlp_rs: got --backend cpu or --plan, expected cuda without\n"},
    {"MlpOfNothing", "bench mlp_all --m 2 --n 8 --k 8", "expected mlp_rs or mlp_ar with one --n\n"},
    {"SumsOfTwoWeights", "bench gemm_rs --m 2 --n 8,8 --k 8",
     "tilelace: gemm_rs: n: got 2 weights, expected one\n"},
    {"WeightsAreNoSafetensors", "run --model minilm-l6 --m 1 --weights /etc/passwd",
     "tilelace: safetensors: /etc/passwd: "},
    {"UnwritableJson", "run --model minilm-l6 --m 1 --json /nonexistent/x",
     "tilelace: --json: /nonexistent/x: got \"No such file or directory\", expected a file to "
     "write\n"},
    {"FullDisk", "run --model minilm-l6 --m 1 --op ag_gemm --json /dev/full",
     "tilelace: --json: /dev/full: got \"No space left on device\", expected a place for a "
     "record\n"},
    {"FullDiskProcesses", "run --model minilm-l6 --m 1 --op ag_gemm --processes --json /dev/full",
     "got \"No space left on device\""},
    {"IllegalPlan", "plan gemm_rs --m 4 --n 8 --k 8 --plan route=ring,transport=store",
     "tilelace: gemm_rs: plan fused ring store is not possible: transport store has no "
     "relays: it needs route mesh\n"},
    {"NarrowPartials", "run --model minilm-l6 --m 1 --plan partials=bf16",
     "tilelace: --plan partials: got bf16, expected fp32\n"},
    {"BlocksOfAnotherOp", "plan gemm_rs --m 4 --n 8 --k 8 --plan blocks=2",
     "tilelace: --plan blocks: got 2 without gemm_ar, expected it with gemm_ar only\n"},
    {"PartialsOfAGather", "bench ag_gemm --m 4 --n 8 --k 8 --plan partials=fp32",
     "tilelace: --plan partials: got fp32 with ag_gemm alone, expected it with gemm_rs or "
     "gemm_ar\n"},
    {"BlocksOfAModelsGathers", "run --model minilm-l6 --m 1 --op ag_gemm --plan blocks=2",
     "tilelace: --plan blocks: got 2 without gemm_ar"},
    {"BenchWithoutK", "bench ag_gemm --m 4 --n 8",
     "tilelace: bench: sizes: got not both of --n and --k, expected either --model or both"},
    {"BenchNotDivisible", "bench ag_gemm --m 4 --n 10 --k 4 --tp 4",
     "tilelace: ag_gemm: n: got 10, expected a multiple of --tp 4\n"},
    {"CheckTooLarge", "check --m 16777216 --tp 64", "tiles over all ranks, expected at most 4e+06"},
    {"SimulateWithoutMachine", "simulate --m 1 --n 8 --k 8", "--machine is required"},
    {"SimulateUnknownMachine", "simulate --machine h1 --m 1 --n 8 --k 8",
     "tilelace: --machine: got \"h1\", expected a file or one of a100-nvlink-x8, "},
    {"SimulateNoMachineFile", "simulate --machine /etc/passwd --m 1 --n 8 --k 8",
     "tilelace: machine: /etc/passwd, got a JSON syntax error at byte"},
    {"SimulateUnknownMethod", "simulate --machine h200x4 --method x --m 1 --n 8 --k 8 --tp 4",
     "tilelace: --method: got \"x\", expected a file or one of cublasmp, flux, flux-sm80\n"},
    {"SimulateFp32", "simulate --machine h200x4 --tp 4 --m 1 --model minilm-l6",
     "--dtype: got fp32, expected bf16 or fp16: machine files have rates of 16-bit products "
     "only\n"},
    {"SimulateTooFine",
     "simulate ag_gemm --machine h200x4 --tp 4 --m 16000000 --n 16 --k 8 --chunk 1",
     "transfers on all ranks, expected at most 3e+07: use larger chunks\n"},
    {"SimulateTooManyRanks", "simulate --machine h200x4 --tp 8 --m 1 --n 8 --k 8",
     "--tp: got 8 ranks per node, expected at most 4 on h200x4: use --nodes for more\n"},
    {"SimulateTooManyNodes", "simulate --machine h200x4 --tp 4 --nodes 2 --m 1 --n 8 --k 8",
     "--nodes: got 2, expected at most 1 of h200x4\n"},
    {"SimulateWithoutK", "simulate --machine h200x4 --tp 4 --m 1 --n 8",
     "simulate: sizes: got not both of --n and --k, expected either --model or both"},
    {"SimulateUnknownRoute", "simulate --machine h200x4 --tp 4 --m 1 --n 8 --k 8 --route star",
     "tilelace: --route: got \"star\", expected mesh, ring, two_level\n"},
    {"SimulateIllegalPlan",
     "simulate gemm_rs --machine h200x4 --tp 4 --m 64 --n 8 --k 8 --order ring --transport store",
     "tilelace: gemm_rs: plan ring store is not possible: transport store has no relays"},
    {"SimulateNoSuchProduct",
     "simulate --machine h200x4 --tp 4 --m 1 --model llama2-70b --product up",
     "tilelace: --product: got \"up\", expected qkv"},
    {"SimulateNoSuchRank", "simulate --machine h200x4 --tp 4 --m 1 --n 8 --k 8 --straggler 4",
     "tilelace: --straggler: got 4, expected a rank, 0 to 3\n"},
    {"SimulateTwoPictures", "simulate --machine h200x4 --tp 4 --m 1,2 --n 8 --k 8 --svg x.svg",
     "tilelace: simulate: --svg and --trace: got 6 products, expected one"},
    {"SimulateTwoProductsOfALayer",
     "simulate gemm_rs --machine h200x4 --tp 4 --m 1 --model llama2-70b --svg x.svg",
     "got 2 products, expected one: name one op and one --m, and of a model one --product\n"},
    {"SimulateUnwritable",
     "simulate ag_gemm --machine h200x4 --tp 4 --m 1 --n 8 --k 8 --svg /nonexistent/x",
     "tilelace: --svg: /nonexistent/x: got \"No such file or directory\", expected a file to "
     "write\n"},
    {"SimulateFullDisk",
     "simulate ag_gemm --machine h200x4 --tp 4 --m 1 --n 8 --k 8 --trace /dev/full",
     "tilelace: --trace: /dev/full: got \"No space left on device\", expected a place for it\n"},
    {"MeasureUnknownBackend", "doctor --measure x.json --backend tpu",
     "got \"tpu\", expected cpu, cuda"},
    {"MeasureUnknownMachine", "doctor --measure x.json --backend cpu --compare nowhere",
     "tilelace: --compare: got \"nowhere\", expected a file or one of a100-nvlink-x8, "},
    {"MeasureGpusWithoutAny", "doctor --measure x.json --backend cuda",
     "--backend: got cuda, expected cpu"},
    {"MeasureUnwritable", "doctor --measure /nonexistent/x",
     "tilelace: --measure: /nonexistent/x: got \"No such file or directory\", expected a file to "
     "write\n"},
    {"CheckUnwritable", "check --configurations 1 --json /nonexistent/x", "--json: /nonexistent/x"},
};

INSTANTIATE_TEST_SUITE_P(All, CliBadInput, testing::ValuesIn(kBadInputs),
                         [](const auto& test) { return test.param.name; });

TEST(CliCommand, RunVerifiesEveryRow) {
  const Finished f = run_command("run --model minilm-l6 --tp 3 --m 1,17 --iterations 2");
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("12 of 12 rows verified"), std::string::npos) << f.out;
  EXPECT_EQ(f.out.find(" NO"), std::string::npos) << f.out;
}

TEST(CliCommand, ProcessesWithJsonPrintNothingElse) {
  const Finished f = run_command(
      "run --model minilm-l6 --tp 2 --m 9 --dtype bf16 --op gemm_ar --processes --iterations 3 "
      "--json -");
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(f.err, "");
  std::istringstream lines(f.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto j = nlohmann::json::parse(line);
    EXPECT_EQ(j["op"], "gemm_ar");
    EXPECT_EQ(j["ranks"], 2);
    EXPECT_EQ(j["iterations"], 3);
    EXPECT_EQ(j["exact"], true);
    EXPECT_EQ(j["verified"], true);
  }
  EXPECT_EQ(count, 2);
}

TEST(CliCommand, CheckedRunHasNoFindings) {
  const Finished f = run_command("run --model minilm-l6 --tp 2 --m 5 --checked");
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("checked: 0 findings"), std::string::npos) << f.out;
}

TEST(CliCommand, EveryRouteVerifies) {
  for (const char* plan : {"route=ring", "route=two_level,local_ranks=2", "transport=store",
                           "partials=fp32", "path=medium"}) {
    const Finished f = run_command(
        std::string("run --model minilm-l6 --tp 4 --m 70 --dtype bf16 --iterations 1 --plan ") +
        plan);
    EXPECT_EQ(f.code, 0) << plan << f.err;
  }
}

TEST(CliCommand, QuietSaysNothing) {
  const Finished f = run_command("bench gemm_rs --tp 2 --m 8 --n 16 --k 16 --quiet");
  EXPECT_EQ(f.code, 0);
  EXPECT_EQ(f.out + f.err, "");
}

TEST(CliCommand, BenchTakesARange) {
  const Finished f = run_command("bench ag_gemm --tp 2 --m 1:4:2 --n 16 --k 16 --no-check");
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_NE(f.out.find("3 rows in"), std::string::npos) << f.out;
  EXPECT_NE(f.out.find("not checked"), std::string::npos) << f.out;
}

TEST(CliCommand, BenchTimesACollective) {
  const Finished f = run_command("bench all_reduce --tp 2 --size 1K:16K:4");
  EXPECT_EQ(f.code, 0) << f.err;
  for (const char* part : {"\nall_reduce\n    size     us  algbw  busbw plan\n", "\n     16K ",
                           "3 of 3 rows verified in "})
    EXPECT_NE(f.out.find(part), std::string::npos) << part << f.out;
}

TEST(CliCommand, BenchOfAllCollectivesWritesRecords) {
  for (const char* more : {"", " --processes --symmetric", " --dtype fp32 --plan chunk=64"}) {
    const Finished f = run_command(
        "bench all_reduce,all_gather,reduce_scatter,all_to_all --tp 3 --size 100,300K "
        "--iterations 3 --json -" +
        std::string(more));
    EXPECT_EQ(f.code, 0) << f.err;
    std::istringstream lines(f.out);
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
      const auto j = nlohmann::json::parse(line);
      EXPECT_EQ(j["schema"], "tilelace.collectives/1");
      EXPECT_EQ(j["samples"], 3);
      EXPECT_EQ(j["verified"], true);
    }
    EXPECT_EQ(count, 8);
  }
}

TEST(CliCommand, BenchOfCollectivesInPlace) {
  const Finished f = run_command(
      "bench all_reduce,all_gather,reduce_scatter --tp 2 --size 1K,70K --in-place --iterations 2");
  EXPECT_EQ(f.code, 0) << f.err << f.out;
  EXPECT_NE(f.out.find("6 of 6 rows verified"), std::string::npos) << f.out;
}

TEST(CliCommand, PlanSaysWhy) {
  const Finished f = run_command("plan --model llama2-70b --tp 8 --m 4096 --link 25,5");
  EXPECT_EQ(f.code, 0) << f.err;
  for (const char* part : {"gate_up: ag_gemm ranks 8 m 4096", "  plan     ", "  why      ",
                           "  not      ", "  staging  "})
    EXPECT_NE(f.out.find(part), std::string::npos) << part << f.out;
}

TEST(CliCommand, PlansOfSeveralOpsTakeOverridesOfSome) {
  const Finished f = run_command("plan --tp 2 --m 64 --n 64 --k 64 --plan blocks=2,partials=fp32");
  EXPECT_EQ(f.code, 0) << f.err;
  for (const char* part : {"  plan     ag_gemm ", " blocks 2 partials fp32", " partials fp32"})
    EXPECT_NE(f.out.find(part), std::string::npos) << part << f.out;
}

TEST(CliCommand, ThePageOfOpsHasTheTable) {
  const Finished f = run_command("plan --ops");
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(f.out.rfind("| op | what | takes | gives |\n", 0), 0) << f.out;
  EXPECT_NE(read_whole(TILELACE_DOCS "/ops.md").find("\n\n" + f.out + "\n"), std::string::npos)
      << "docs/ops.md: got another table, expected\n"
      << f.out;
}

TEST(CliCommand, SimulatePrintsRowsAndTheKnownError) {
  const Finished f =
      run_command("simulate --machine h200x4 --model llama2-70b --tp 4 --m 0,1,512,4096");
  EXPECT_EQ(f.code, 0) << f.err;
  for (const char* part : {"gate_up  ag_gemm 4096", "attn_out gemm_ar", "bound by", "mesh push",
                           "Known error of h200x4: median ", "24 rows simulated in "})
    EXPECT_NE(f.out.find(part), std::string::npos) << part << f.out;
  EXPECT_EQ(f.out.find("nan"), std::string::npos) << f.out;
}

TEST(CliCommand, SimulateSweepsAndDisturbs) {
  const Finished f = run_command(
      "simulate ag_gemm --machine h800-nvlink-x8 --tp 8 --nodes 2 --m 2048 --n 49152 --k 12288 "
      "--chunk 64,128 --tried --jitter 10 --noise 0.1 --straggler 3 --seed 7");
  EXPECT_EQ(f.code, 0) << f.err;
  for (const char* part : {"16 ranks over 2 nodes", "chunk 64 ", "chunk 128 ", "two_level"})
    EXPECT_NE(f.out.find(part), std::string::npos) << part << f.out;
}

TEST(CliCommand, SimulateWritesPicturesAndRecords) {
  const std::string svg = testing::TempDir() + "simulated.svg";
  const std::string trace = testing::TempDir() + "simulated.json";
  const Finished f = run_command(
      "simulate gemm_rs --machine h200x8 --model qwen3-32b --product down --tp 8 --m 1024 --json - "
      "--svg " +
      svg + " --trace " + trace);
  EXPECT_EQ(f.code, 0) << f.err;
  const auto record = nlohmann::json::parse(f.out);
  EXPECT_EQ(record["backend"], "simulated");
  EXPECT_EQ(read_whole(svg).rfind("<svg ", 0), 0U);
  EXPECT_TRUE(nlohmann::json::parse(read_whole(trace)).contains("traceEvents"));
  unlink(svg.c_str()), unlink(trace.c_str());
}

TEST(CliCommand, DoctorMeasuresAMachineThatSimulateReads) {
  const std::string file = testing::TempDir() + "measured.json";
  const Finished doctor = run_command("doctor --measure " + file);
  EXPECT_EQ(doctor.code, 0) << doctor.err;
  EXPECT_NE(doctor.out.find("GEMM of a core"), std::string::npos) << doctor.out;
  const Finished f = run_command("simulate --machine " + file + " --tp 1 --m 64 --n 512 --k 512");
  EXPECT_EQ(f.code, 0) << f.err;
  unlink(file.c_str());
}

TEST(CliCommand, CheckExploresAndCatches) {
  const Finished sweep = run_command("check --configurations 200");
  EXPECT_EQ(sweep.code, 0) << sweep.err;
  EXPECT_NE(sweep.out.find("explored 200 configurations"), std::string::npos) << sweep.out;
  const Finished shape = run_command("check --op gemm_ar --tp 3 --m 100 --n 512 --workers 2");
  EXPECT_EQ(shape.code, 0) << shape.err;
  EXPECT_NE(shape.out.find("\n0 with findings\n"), std::string::npos) << shape.out;
  const Finished mutants = run_command("check --mutants");
  EXPECT_EQ(mutants.code, 0) << mutants.out;
  EXPECT_NE(mutants.out.find("mutants caught "), std::string::npos);
  EXPECT_EQ(mutants.out.find("LIVES"), std::string::npos);
}

TEST(CliCommand, DoctorAndVersionAndHelp) {
  const Finished doctor = run_command("doctor");
  EXPECT_EQ(doctor.code, 0);
  for (const char* part : {"CPU  ", "GEMM bf16", "memfd", "CUDA ranks", "missing"})
    EXPECT_NE(doctor.out.find(part), std::string::npos) << part << doctor.out;
  const Finished version = run_command("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out.rfind("tilelace 0.", 0), 0U) << version.out;
  for (const char* command : {"", "run ", "bench ", "plan ", "simulate ", "check ", "doctor "}) {
    const Finished help = run_command(std::string(command) + "--help");
    EXPECT_EQ(help.code, 0);
    EXPECT_NE(help.out.find("tilelace "), std::string::npos);
  }
}

}  // namespace
}  // namespace tilelace::cli
