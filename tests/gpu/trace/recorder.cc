// SPDX-License-Identifier: Apache-2.0
#include "recorder.h"

#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>

#include "backend/cuda/base/current_device.h"
#include "backend/cuda/base/trace.h"
#include "core/check.h"
#include "op/run_plan.h"
#include "plan/gpu/kernel_choice.h"

namespace tilelace::gpu_test {
namespace {

constexpr int kKept = 8;                      ///< calls that are accounted for
constexpr int kMostLaunches = 3;              ///< of a call
constexpr int kMostCtas = 264;                ///< of a launch
constexpr int kMostEvents = 1536;             ///< of a CTA
constexpr int kCalls = cli::kGraphCalls + 2;  ///< of a graph, and the two before
constexpr std::size_t kProducts = 8;          ///< own ones that are tried, best prediction first

std::uint64_t first_ns(const std::vector<cuda::TracedLaunch>& launches) {
  std::uint64_t least = ~std::uint64_t{0};
  for (const auto& launch : launches)
    for (const auto& cta : launch.ctas) least = std::min(least, cta.front().ns);
  return least;
}

/// The launches of the last `calls` calls of `all`.
std::vector<cuda::TracedLaunch> last_calls(std::vector<cuda::TracedLaunch> launches, int all,
                                           int calls) {
  const auto each = std::ssize(launches) / all;
  launches.erase(launches.begin(), launches.end() - each * calls);
  return launches;
}

}  // namespace

std::vector<CallAccount> Recording::accounts(int multiprocessors) const {
  std::vector<CallAccount> all;
  for (std::size_t i = 1; i < calls.size(); ++i)
    all.push_back(account_of(calls[i], calls[i - 1].end_us, multiprocessors));
  return all;
}

RankRecorder::RankRecorder(cli::GpuRank& gpu, const cli::Job& job, std::int64_t m)
    : gpu_(gpu),
      job_(job),
      rank_{gpu.member.rank(), gpu.member.size(), gpu.member.rank(), &op::group_of(gpu.member),
            static_cast<cudaStream_t>(gpu.times.stream())},
      weights_(cli::model_weights(gpu.work, job, gpu.member.rank())),
      tensors_(gpu.work, job, gpu.member.rank(), m, &gpu.place),
      problem_{m, job.gemm.n[0], job.gemm.k, gpu.work.dtype} {
  cli::move_to_gpu(weights_, gpu.place);
  gpu.member.prepare(cli::preparations(gpu.work, job, weights_, gpu.member.machine(), false, {m}));
  tensors_.fill_random();
}

std::uint64_t RankRecorder::origin_ns(const std::vector<cuda::TracedLaunch>& launches,
                                      double offset_ns) const {
  constexpr double kHalf = 4294967296.0;  // numbers of 64 bits do not fit a double
  const std::uint64_t own = first_ns(launches);
  const auto all = rank_.gather(
      {std::floor(static_cast<double>(own >> 32)), static_cast<double>(own & 0xFFFFFFFFU)});
  const auto zero = static_cast<std::uint64_t>(all[0][0]) * static_cast<std::uint64_t>(kHalf) +
                    static_cast<std::uint64_t>(all[0][1]);
  return zero + static_cast<std::uint64_t>(static_cast<std::int64_t>(offset_ns));
}

Recording RankRecorder::record(const std::string& plan, const cli::GpuCall& call) {
  cuda::TraceRecorder recorder(kCalls * kMostLaunches, kMostCtas, kMostEvents);
  const auto traced = [&](int i) {
    cuda::record_launches(&recorder);
    call(i);
    cuda::record_launches(nullptr);
  };
  const auto us = gpu_.samples({call, traced});
  Recording r;
  r.plan = plan;
  r.us = cli::quantile(us[0], 0.5);
  r.traced_us = cli::quantile(us[1], 0.5);
  // What is read: the last graph.
  const auto launches = last_calls(recorder.read(), kCalls, kKept + 1);
  clock_ = clock_offset(rank_);
  r.resolution_ns = resolution_ns(launches);
  r.calls = call_lines(launches, kKept + 1, origin_ns(launches, clock_.ns));
  return r;
}

void RankRecorder::multiply(const plan::GemmPlan& plan, int turn) {
  tensors_.turn(turn);
  cuda::GemmTensors t;
  t.a = tensors_.operand().data;
  t.weight = weights_.turns[static_cast<std::size_t>(turn)][0].data;
  t.out = tensors_.product().data;
  cuda::GemmCall(plan, problem_, t, workspace_.scratch()).launch(rank_.stream);
}

Recording RankRecorder::product(const plan::GemmPlan& plan) {
  return record(describe(plan), [&](int i) { multiply(plan, i); });
}

plan::GemmPlan RankRecorder::best_product() {
  auto plans = plan::gemm_candidates(problem_);
  std::erase_if(plans, [&](const auto& p) { return !cuda::has_kernel(p, problem_.dtype); });
  plans.resize(std::min(plans.size(), kProducts));
  std::vector<cli::GpuCall> calls;
  for (const auto& plan : plans) calls.emplace_back([this, &plan](int i) { multiply(plan, i); });
  const std::vector<double> not_predicted(calls.size(), 0);
  return plans[gpu_.times.fastest(calls, not_predicted).times.front().index];
}

/// The fastest that is fused, or the one that was asked for.
Plan RankRecorder::fused_plan() {
  const auto all = cli::candidates_of(gpu_.work, job_, tensors_.m(), gpu_.member.machine());
  std::vector<cli::CallTime> took;
  const auto call = [this](int turn, const Plan& plan) {
    tensors_.turn(turn);
    tensors_.call(gpu_.member, weights_, plan);
  };
  gpu_.fastest(job_, tensors_.m(), call, took);
  for (const cli::CallTime& t : took)
    if (all[t.index].plan.path == Path::fused || !gpu_.work.plan.empty()) return all[t.index].plan;
  raise(ErrorKind::usage, "{}: got no fused plan, expected one", name_of(job_));
}

RankRow RankRecorder::run() {
  RankRow r;
  r.multiprocessors = cuda::multiprocessors_of(rank_.device);
  for (int i = 0; i < cli::kGraphCalls && job_.gemm.op == Op::ag_gemm; ++i) {
    tensors_.turn(i);  // the product's operand
    tensors_.call_collective(gpu_.member);
  }
  const Plan fused = fused_plan();
  if (job_.gemm.op == Op::ag_gemm)
    r.chunks = static_cast<int>((tensors_.m() / rank_.ranks + fused.chunk_rows - 1) /
                                std::max<std::int64_t>(fused.chunk_rows, 1));
  r.fused = record(fmt::format("{}", fmt::streamed(fused)), [&](int i) {
    tensors_.turn(i);
    tensors_.call(gpu_.member, weights_, fused);
  });
  r.clock = clock_;
  tensors_.turn(0);
  const auto peers = gpu_.baselines->peers(job_, tensors_, weights_);
  r.blas_us = cli::quantile(gpu_.samples({peers.front().call})[0], 0.5);
  r.same = product(plan::gemm_of(fused.kernel->way));
  r.best = product(best_product());
  return r;
}

}  // namespace tilelace::gpu_test
