// SPDX-License-Identifier: Apache-2.0
// Exit codes, golden texts, records and reports of the built command.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli_fixture.h"
#include "places.h"

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
    {"Nothing", "",
     "tilelace: a command is missing. `tilelace --help` says what each command does\nCommands: "
     "run, bench, plan"},
    {"UnknownCommand", "fly", "tilelace: there is no command \"fly\"\nCommands: run, bench, plan"},
    {"MisspeltCommand", "benhc ag_gemm", "there is no command \"benhc\"; did you mean bench?"},
    {"HelpOfNoCommand", "help plna", "there is no command \"plna\"; did you mean plan?"},
    {"MisspeltOption", "run --modle minilm-l6",
     "tilelace: run: there is no option --modle; did you mean --model?\n"},
    {"MisspeltOptionWithValue", "bench gemm_rs --itertions=3",
     "tilelace: bench: there is no option --itertions; did you mean --iterations?\n"},
    {"NoSuchOption", "plan --colour", "there is no option --colour. `tilelace plan --help` lists"},
    {"NoOptionOfAll", "--quite run", "there is no option --quite in front of a command."},
    {"GoneChunk", "simulate --machine h200x4 --chunk 64",
     "tilelace: simulate: --chunk is now --plan chunk=ROWS\n"},
    {"GoneOrder", "simulate --order=ring", "--order is now --plan route="},
    {"GoneTile", "simulate --tile 128x256", "--tile is now --plan tile_m=ROWS,tile_n=COLUMNS\n"},
    {"GoneTransports", "bench ag_gemm --transports push,pull",
     "tilelace: bench: --transports is now one --plan for each, as --plan transport=pull\n"},
    {"SimulatedPath", "simulate --machine h200x4 --tp 4 --m 8 --n 64 --k 64 --plan path=unfused",
     "tilelace: --plan path: simulate always shows fused, medium and unfused: remove path=... from "
     "--plan\n"},
    {"SimulatedHalfATile", "simulate --machine h200x4 --tp 4 --m 8 --n 64 --k 64 --plan tile_m=64",
     "tilelace: --plan tile_m, tile_n: simulate needs both of them or none\n"},
    {"SimulatedTransport",
     "simulate --machine h200x4 --tp 4 --m 8 --n 64 --k 64 --plan transport=nccl",
     "tilelace: --plan transport: simulate supports only push, pull and store\n"},
    {"SimulatedFastStraggler",
     "simulate --machine h200x4 --tp 4 --m 8 --n 64 --k 64 --straggler 0 --straggle 0.5",
     "--straggle: got \"0.5\", expected a number from 1 to 100"},
    {"CollectivesOfTwoPlans", "bench all_reduce --size 1K --plan shots=1 --plan shots=2",
     "tilelace: --plan: got 2 plans, expected one for collectives\n"},
    {"SizesWithoutHeads", "run --model hidden=64,intermediate=128 --m 1",
     "tilelace: --model: heads is missing: give at least hidden, intermediate and heads\n"},
    {"SizesTwice", "run --model hidden=64,hidden=64 --m 1", "--model: hidden is given twice\n"},
    {"SizesOfNoKey", "plan --model hidden=64,width=3 --m 1",
     "tilelace: --model: got \"width\", expected the keys hidden, intermediate"},
    {"SizesOfOddHeads", "plan --model hidden=64,intermediate=128,heads=7 --m 1",
     "--model heads: got 7, expected a divisor of hidden, 64, unless head_dim is given\n"},
    {"SizesWithWeights",
     "run --model hidden=64,intermediate=128,heads=4 --weights x.safetensors --m 1",
     "tilelace: --weights: sizes given by hand have no names of tensors"},
    {"UnknownOption", "doctor --hard", "doctor: there is no option --hard"},
    {"RunWithoutModel", "run --m 1", "--model is required"},
    {"RunWithoutM", "run --model minilm-l6", "--m is required"},
    {"UnknownModel", "run --model nope --m 1", "--model: got \"nope\", expected one of gpt3"},
    {"NoSuchFolder", "run --model ./nope --m 1", "--model: got \"./nope\", expected one of"},
    {"TpNotADivisor", "run --model minilm-l6 --tp 5 --m 1",
     "tilelace: --tp 5 cannot split the 12 heads of minilm-l6: take one of 1, 2, 3, 4, 6, 12\n"},
    {"TpZero", "run --model minilm-l6 --tp 0 --m 1",
     "--tp: got \"0\", expected a whole number from 1 to 64"},
    {"TpTooLarge", "run --model minilm-l6 --tp 65 --m 1",
     "--tp: got \"65\", expected a whole number from 1 to 64"},
    {"NegativeM", "run --model minilm-l6 --m -1",
     "tilelace: --m: got \"-1\", expected a whole number from 0 to 1099511627776\n"},
    {"EmptyPartOfM", "run --model minilm-l6 --m 1,,2",
     "tilelace: --m: \"1,,2\" has an empty part\n"},
    {"HugeM", "run --model minilm-l6 --m 1000000000", "tilelace: memory: these sizes need "},
    {"OverflowingSizes", "bench gemm_rs --m 1099511627776 --n 1099511627776 --k 4",
     "the staging would have more bytes than 64 bits can count\n"},
    {"OverflowingStaging", "plan gemm_ar --tp 2 --m 1099511627776 --n 1000000 --k 64 --dtype fp32",
     "the staging would have more bytes than 64 bits can count\n"},
    {"LayerOutOfRange", "run --model minilm-l6 --m 1 --layer 6",
     "tilelace: --layer: got \"6\", expected a whole number from 0 to 5\n"},
    {"UnknownOp", "run --model minilm-l6 --m 1 --op gemm",
     "tilelace: op: got \"gemm\", expected ag_gemm, gemm_rs, gemm_ar\n"},
    {"UnknownDtype", "run --model minilm-l6 --m 1 --dtype fp8",
     "tilelace: --dtype: got \"fp8\", expected bf16, fp16, fp32\n"},
    {"NoLink", "run --model minilm-l6 --m 1 --link 0",
     "tilelace: --link: bandwidth: got 0 GB/s, expected more than 0 and at most 1e6\n"},
    {"NoTimeout", "run --model minilm-l6 --m 1 --timeout 0",
     "--timeout: got \"0\", expected a number from 0.001 to"},
    {"NanTimeout", "run --model minilm-l6 --m 1 --timeout nan",
     "got \"nan\", expected a number from 0.001 to"},
    {"NanGrace", "launch --ranks 1 --grace nan true",
     "--grace: got \"nan\", expected a number from 0 to 3600"},
    {"NanNoise", "simulate --machine h200x4 --tp 4 --m 8 --n 64 --k 64 --noise nan",
     "--noise: got \"nan\", expected a number from 0 to 10"},
    {"CheckedProcesses", "run --model minilm-l6 --m 1 --checked --processes",
     "tilelace: --checked needs ranks that are threads: leave out --processes\n"},
    {"CandidatesOfCpuRanks", "bench ag_gemm --m 1 --n 8 --k 8 --candidates 2",
     "tilelace: --candidates, --kinds: GPU ranks only, add --backend cuda\n"},
    {"BenchWithoutRows", "bench ag_gemm --n 8 --k 8", "bench: --m is missing: give an op and --m"},
    {"PlanWithoutRows", "plan ag_gemm --n 8 --k 8", "plan: --m is missing: give it, or --rows"},
    {"RowsAndSizes", "bench --rows rows.txt --m 1",
     "--rows: the file has ops and sizes: leave out op"},
    {"RowsNowhere", "plan --rows no/rows.txt", "--rows: no/rows.txt cannot be read: No such file"},
    {"UnknownOpOfBench", "bench gemm --m 1 --n 8 --k 8",
     "tilelace: bench: op: got \"gemm\", expected a product (ag_gemm, gemm_rs or gemm_ar), an MLP "
     "(mlp_rs, mlp_ar) or collectives (all_reduce, all_gather, reduce_scatter, all_to_all)\n"},
    {"CollectivesWithoutSizes", "bench all_reduce", "tilelace: bench: all_reduce needs --size"},
    {"CollectivesOfRows", "bench all_reduce --size 1K --m 8",
     "bench: --m is for products, not for all_reduce"},
    {"CollectivesBesideProducts", "bench all_reduce,ag_gemm --size 1K",
     "has products and collectives: time them in two calls\n"},
    {"ProductsOfBytes", "bench ag_gemm --m 1 --n 8 --k 8 --size 1K",
     "bench: --size is only for collectives"},
    {"CollectivesInPlace", "bench all_to_all --size 1K --in-place",
     "--in-place: all_to_all cannot run in place: time it without --in-place"},
    {"CollectivesBaselines", "bench all_reduce --size 1K --baselines cublas",
     "--baselines: got \"cublas\", expected nccl, nccl_registered, nccl_window\n"},
    {"CollectivesTooLarge", "bench all_reduce --size 900G", "memory: these sizes need 7.0 TiB"},
    {"BriefOfCpuRanks", "bench ag_gemm --m 1 --n 8 --k 8 --brief",
     "--brief: only for products on GPU ranks"},
    {"BaselinesOfCpuRanks", "bench ag_gemm --m 1 --n 8 --k 8 --baselines nccl",
     "tilelace: --baselines: GPU ranks only, add --backend cuda\n"},
    {"BaselinesUnknown", "bench ag_gemm --m 1 --n 8 --k 8 --baselines mpi",
     "tilelace: --baselines: got \"mpi\", expected cublas, nccl, nccl_registered, nccl_window, "
     "beside\n"},
    {"MlpOfCpuRanks", "bench mlp_rs --m 2 --n 8 --k 8",
     "tilelace: mlp_rs: only for GPU ranks, with the planner's plan: add --backend cuda and leave "
     "out "
     "--plan\n"},
    {"MlpOfNothing", "bench mlp_all --m 2 --n 8 --k 8",
     "tilelace: bench: op: got \"mlp_all\", expected mlp_rs, mlp_ar\n"},
    {"SumsOfTwoWeights", "bench gemm_rs --m 2 --n 8,8 --k 8",
     "tilelace: gemm_rs: n: got 2 values, expected one\n"},
    {"WeightsAreNoSafetensors", "run --model minilm-l6 --m 1 --weights /etc/passwd",
     "tilelace: safetensors: /etc/passwd: "},
    {"UnwritableJson", "run --model minilm-l6 --m 1 --json /nonexistent/x",
     "tilelace: --json: cannot write /nonexistent/x: No such file or directory\n"},
    {"FullDisk", "run --model minilm-l6 --m 1 --op ag_gemm --json /dev/full",
     "tilelace: --json: cannot write /dev/full: No space left on device\n"},
    {"FullDiskProcesses", "run --model minilm-l6 --m 1 --op ag_gemm --processes --json /dev/full",
     "cannot write /dev/full: No space left on device"},
    {"IllegalPlan", "plan gemm_rs --m 4 --n 8 --k 8 --plan route=ring,transport=store",
     "tilelace: gemm_rs: plan fused ring store is not possible: transport store has no "
     "relays: it needs route mesh\n"},
    {"NarrowPartials", "run --model minilm-l6 --m 1 --plan partials=bf16",
     "tilelace: --plan partials: got bf16, expected fp32\n"},
    {"BlocksOfAnotherOp", "plan gemm_rs --m 4 --n 8 --k 8 --plan blocks=2",
     "tilelace: --plan blocks: only gemm_ar has blocks, and it is not among these ops\n"},
    {"PartialsOfAGather", "bench ag_gemm --m 4 --n 8 --k 8 --plan partials=fp32",
     "tilelace: --plan partials: only gemm_rs and gemm_ar have partials, and neither is among "
     "these ops\n"},
    {"BlocksOfAModelsGathers", "run --model minilm-l6 --m 1 --op ag_gemm --plan blocks=2",
     "tilelace: --plan blocks: only gemm_ar has blocks"},
    {"BenchWithoutK", "bench ag_gemm --m 4 --n 8",
     "tilelace: bench: sizes are missing: give --model, or --n and --k"},
    {"BenchNotDivisible", "bench ag_gemm --m 4 --n 10 --k 4 --tp 4",
     "tilelace: ag_gemm: n: got 10, expected a multiple of --tp 4\n"},
    {"CheckTooLarge", "check --m 16777216 --tp 64",
     "tiles over all ranks are too many: take a smaller --m, --n or --tp (at most 4e+06 tiles)"},
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
     "simulate ag_gemm --machine h200x4 --tp 4 --m 16000000 --n 16 --k 8 --plan chunk=1",
     "transfers on all ranks, expected at most 3e+07: use larger chunks\n"},
    {"SimulateTooManyRanks", "simulate --machine h200x4 --tp 8 --m 1 --n 8 --k 8",
     "--tp: got 8 ranks per node, expected at most 4 on h200x4: use --nodes for more\n"},
    {"SimulateTooManyNodes", "simulate --machine h200x4 --tp 4 --nodes 2 --m 1 --n 8 --k 8",
     "--nodes: got 2, expected at most 1 on h200x4\n"},
    {"SimulateWithoutK", "simulate --machine h200x4 --tp 4 --m 1 --n 8",
     "simulate: sizes are missing: give --model, or --n and --k"},
    {"SimulateUnknownRoute", "simulate --machine h200x4 --tp 4 --m 1 --n 8 --k 8 --plan route=star",
     "tilelace: --plan route: got \"star\", expected mesh, ring, two_level\n"},
    {"SimulateIllegalPlan",
     "simulate gemm_rs --machine h200x4 --tp 4 --m 64 --n 8 --k 8 --plan "
     "route=ring,transport=store",
     "tilelace: gemm_rs: plan ring store is not possible: transport store has no relays"},
    {"SimulateNoSuchProduct",
     "simulate --machine h200x4 --tp 4 --m 1 --model llama2-70b --product up",
     "tilelace: --product: got \"up\", expected qkv, attn_out, gate_up, down\n"},
    {"SimulateNoSuchRank", "simulate --machine h200x4 --tp 4 --m 1 --n 8 --k 8 --straggler 4",
     "tilelace: --straggler: got 4, expected a rank, 0 to 3\n"},
    {"SimulateTwoPictures", "simulate --machine h200x4 --tp 4 --m 1,2 --n 8 --k 8 --svg x.svg",
     "tilelace: --svg and --trace show one call, got 6"},
    {"SimulateTwoProductsOfALayer",
     "simulate gemm_rs --machine h200x4 --tp 4 --m 1 --model llama2-70b --svg x.svg",
     "show one call, got 2: give one op and one --m, and with a model one --product\n"},
    {"SimulateUnwritable",
     "simulate ag_gemm --machine h200x4 --tp 4 --m 1 --n 8 --k 8 --svg /nonexistent/x",
     "tilelace: --svg: cannot write /nonexistent/x: No such file or directory\n"},
    {"SimulateFullDisk",
     "simulate ag_gemm --machine h200x4 --tp 4 --m 1 --n 8 --k 8 --trace /dev/full",
     "tilelace: --trace: cannot write /dev/full: No space left on device\n"},
    {"MeasureUnknownBackend", "doctor --measure x.json --backend tpu",
     "got \"tpu\", expected cpu or cuda"},
    {"MeasureUnknownMachine", "doctor --measure x.json --backend cpu --compare nowhere",
     "tilelace: --compare: got \"nowhere\", expected a file or one of a100-nvlink-x8, "},
    {"MeasureGpusWithoutAny", "doctor --measure x.json --backend cuda",
     "--backend cuda: built without CUDA"},
    {"MeasureUnwritable", "doctor --measure /nonexistent/x",
     "tilelace: --measure: cannot write /nonexistent/x: No such file or directory\n"},
    {"CheckUnwritable", "check --configurations 1 --json /nonexistent/x",
     "--json: cannot write /nonexistent/x"},
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

TEST(CliCommand, SeveralWeightsAreOneProductEverywhere) {
  const std::string sizes = " ag_gemm --tp 2 --m 64 --n 512,128,128 --k 256";
  const Finished plan = run_command("plan --backend cuda" + sizes);
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_NE(plan.out.find("m 64 n 256+64+64 k 256"), std::string::npos) << plan.out;
  const Finished simulated = run_command("simulate --machine h200x2 --quiet --json -" + sizes);
  EXPECT_EQ(simulated.code, 0) << simulated.err;
  EXPECT_NE(simulated.out.find("\"n\":768"), std::string::npos) << simulated.out;
}

TEST(CliCommand, PlansSayHowBytesTravel) {
  const Finished f = run_command("plan gemm_rs --tp 4 --m 64 --n 64 --k 64 --workers 2");
  EXPECT_NE(f.out.find("machine: CPU ranks, 2 workers each, shared memory, "), std::string::npos)
      << f.out;
}

TEST(CliCommand, SeveralPlansAreTriedOneByOne) {
  const std::string plans = " --plan transport=push,chunk=8 --plan transport=pull";
  const Finished bench = run_command("bench ag_gemm --tp 2 --m 16,32 --n 32 --k 32" + plans);
  EXPECT_EQ(bench.code, 0) << bench.err;
  for (const char* part : {"\npush 8 ag_gemm 16 ", "\npull   ag_gemm 32 ", "4 of 4 rows verified"})
    EXPECT_NE(bench.out.find(part), std::string::npos) << part << bench.out;
  const Finished plan = run_command("plan ag_gemm --tp 2 --m 16 --n 32 --k 32" + plans);
  EXPECT_EQ(plan.code, 0) << plan.err;
  for (const char* part : {"  asked    push 8\n  plan     ag_gemm fused mesh push ",
                           "  asked    pull\n  plan     ag_gemm fused mesh pull "})
    EXPECT_NE(plan.out.find(part), std::string::npos) << part << plan.out;
}

/// One parser: what one command takes, all do.
TEST(CliCommand, PlansHaveTheSameWordsEverywhere) {
  const std::string sizes = " ag_gemm --tp 4 --m 64 --n 512 --k 512";
  const std::string plan = " --plan route=ring,transport=push,chunk=16,tile_m=64,tile_n=128";
  for (const char* command :
       {"plan", "bench --iterations 1", "simulate --machine h200x4 --tried"}) {
    const Finished good = run_command(command + sizes + plan);
    EXPECT_EQ(good.code, 0) << command << good.err;
    const Finished bad = run_command(command + sizes + " --plan colour=red");
    EXPECT_EQ(bad.code, 2) << command;
    EXPECT_NE(bad.err.find("tilelace: --plan: got \"colour\", expected path, transport, route"),
              std::string::npos)
        << command << bad.err;
  }
  const Finished run = run_command("run --model minilm-l6 --m 1 --plan colour=red");
  EXPECT_NE(run.err.find("--plan: got \"colour\", expected path"), std::string::npos) << run.err;
}

TEST(CliCommand, LayersAreGivenByHand) {
  const std::string sizes = " --model hidden=64,intermediate=96,heads=4,kv_heads=2";
  const Finished run = run_command("run" + sizes + " --tp 2 --m 5 --iterations 1");
  EXPECT_EQ(run.code, 0) << run.err;
  for (const char* part : {"hidden=64,intermediate=96,heads=4,kv_heads=2: 2 ranks", "bf16",
                           "\nqkv      ag_gemm 5 128 64 ", "\ngate_up  ag_gemm 5 192 64 ",
                           "\ndown     gemm_rs 5  64 96 ", "6 of 6 rows verified"})
    EXPECT_NE(run.out.find(part), std::string::npos) << part << run.out;
  for (const char* line : {"plan", "simulate --machine h200x2", "bench ag_gemm --iterations 1"}) {
    const Finished f = run_command(line + sizes + " --tp 2 --m 8");
    EXPECT_EQ(f.code, 0) << line << f.err;
    EXPECT_NE(f.out.find("gate_up"), std::string::npos) << line << f.out;
  }
}

TEST(CliCommand, HelpIsACommandToo) {
  EXPECT_EQ(run_command("help").out, run_command("--help").out);
  EXPECT_EQ(run_command("help plan").out, run_command("plan --help").out);
}

TEST(CliCommand, ThePageOfOpsHasTheTable) {
  const Finished f = run_command("plan --ops --wide");
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(f.out.rfind("| op | what | takes | gives |\n", 0), 0) << f.out;
  EXPECT_NE(read_whole(in_source_tree("docs/ops.md")).find("\n\n" + f.out + "\n"),
            std::string::npos)
      << "docs/ops.md: got another table, expected\n"
      << f.out;
}

TEST(CliCommand, SimulatePrintsRowsAndTheKnownError) {
  const Finished f =
      run_command("simulate --machine h200x4 --model llama2-70b --tp 4 --m 0,1,512,4096 --wide");
  EXPECT_EQ(f.code, 0) << f.err;
  for (const char* part : {"gate_up  ag_gemm 4096", "attn_out gemm_ar", "bound by", "mesh push",
                           "Known error of h200x4: median ", "24 rows simulated in "})
    EXPECT_NE(f.out.find(part), std::string::npos) << part << f.out;
  EXPECT_EQ(f.out.find("nan"), std::string::npos) << f.out;
}

TEST(CliCommand, SimulateSweepsAndDisturbs) {
  const Finished f = run_command(
      "simulate ag_gemm --machine h800-nvlink-x8 --tp 8 --nodes 2 --m 2048 --n 49152 --k 12288 "
      "--plan chunk=64 --plan chunk=128 --tried --jitter 10 --noise 0.1 --straggler 3 --seed 7");
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
  for (const char* part : {"CPU  ", "GEMM bf16", "memfd", "GPU ranks", "missing"})
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
