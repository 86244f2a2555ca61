// SPDX-License-Identifier: Apache-2.0
// gpu_conformance: results of the fused ops on the GPUs of one process, a thread a rank. Random
// problems and edges with every kind of plan, exact integers and fp64. Exit 0: all right, 1: a
// result was wrong, 2: usage, 3: a wait expired or the system.
#include <algorithm>

#include "ops/conformance.h"
#include "ops/session.h"

namespace tilelace::gpu_test {
namespace {

constexpr std::size_t kBatch = 20;  // cases that share one staging

struct Options : SessionOptions {
  int shapes = 100;
  int only = -1;
  bool gated = false;
};

/// Cases of one op and type.
struct Work {
  Op op = Op::ag_gemm;
  DType dtype = DType::bf16;
  std::vector<Case> cases;
};

std::vector<Work> all_work(const Options& o, int ranks) {
  std::vector<Work> all;
  for (const Op op : kOps) {
    for (const DType dtype : {DType::fp16, DType::bf16}) {
      if (!among(o.ops, name_of(op)) || !among(o.dtypes, name_of(dtype))) continue;
      auto cases = draw_cases(o.shapes, {op, ranks, dtype, ways_of(o, ranks, 1), o.gated, o.small},
                              o.seed * 2 + static_cast<std::uint64_t>(dtype));
      if (o.only >= 0) std::erase_if(cases, [&](const Case& c) { return c.index != o.only; });
      all.push_back({op, dtype, std::move(cases)});
    }
  }
  return all;
}

void check_batch(Rank& rank, const Options& o, OpCheck& check, const std::vector<Case>& batch,
                 std::size_t first, Report& report) {
  std::vector<Problem> problems;
  for (const Case& c : batch) problems.push_back(c.problem);
  cuda::RankOps ops(*rank.group, rank.device, problems, o.timeout_s, share_of(o, rank.ranks, 1));
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Drop lost = (first + i) / 2 % 2 == 0 ? Drop::input : Drop::reference;
    naming(rank, text_of(batch[i]),
           [&] { report.add(batch[i], check.run(ops, batch[i], o.drop ? lost : Drop::nothing)); });
  }
  rank.meet();  // nobody's memory goes while a peer may still use it
}

void check_shapes(Rank& rank, const Options& o, const Work& work, Report& report) {
  OpCheck check(rank, o.timeout_s);
  const auto& cases = work.cases;
  for (std::size_t at = 0; at < cases.size(); at += kBatch) {
    const auto begin = cases.begin() + static_cast<std::ptrdiff_t>(at);
    const auto size = static_cast<std::ptrdiff_t>(std::min(kBatch, cases.size() - at));
    check_batch(rank, o, check, {begin, begin + size}, at, report);
  }
  rank.meet();
  if (rank.rank == 0) report.conclude(work.op, work.dtype, cases);
  rank.meet();
}

Session session_of(const Options& o, int ranks) {
  auto all = all_work(o, ranks);
  const double limit_s = 60 + 0.5 * o.shapes * static_cast<double>(all.size());
  return {limit_s, [&o, all = std::move(all)](Rank& rank, Report& report) {
            for (const Work& work : all) check_shapes(rank, o, work, report);
          }};
}

}  // namespace
}  // namespace tilelace::gpu_test

int main(int argc, char** argv) {
  using namespace tilelace::gpu_test;
  CLI::App app("Checks the fused ops on the GPUs of this machine against exact integers and fp64");
  Options o;
  add_options(app, o, {"ag_gemm", "gemm_rs", "gemm_ar"});
  app.add_option("--shapes", o.shapes, "random problems a type")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--only", o.only, "only this case of the problems that the seed gives");
  app.add_flag("--gated", o.gated, "random problems of ag_gemm: those with swiglu alone");
  return run_session("gpu_conformance", app, argc, argv, o,
                     [&](int ranks) { return session_of(o, ranks); });
}
