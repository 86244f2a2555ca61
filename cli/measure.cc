// SPDX-License-Identifier: Apache-2.0
#include "measure.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>

#include "machine.h"
#include "operands.h"
#include "verify.h"

namespace tilelace::cli {
namespace {

/// What the timing of a row may take, and how many samples it then has.
constexpr double kSecondsPerRow = 1.2;
constexpr int kFewestIterations = 3, kMostIterations = 40;

class RankMeasurement {
 public:
  RankMeasurement(const Workload& work, Communicator& member, const Send& send)
      : work_(work), member_(member), send_(send), shared_(member, sizeof(std::int64_t)) {}

  void run_job(int index) {
    const Job& job = work_.jobs[static_cast<std::size_t>(index)];
    const auto sizes = work_.sizes.size();
    std::vector<RankPart> parts(sizes);
    for (std::size_t s = 0; s < sizes; ++s)
      parts[s].row = index * static_cast<int>(sizes) + static_cast<int>(s);
    if (work_.check) {
      const RankWeights integers = integer_weights(work_, job, member_.rank());
      prepare(job, integers, true);
      for (std::size_t s = 0; s < sizes; ++s)
        check_integers(job, integers, work_.sizes[s], parts[s]);
    }
    const RankWeights weights = model_weights(work_, job, member_.rank());
    prepare(job, weights, false);
    for (std::size_t s = 0; s < sizes; ++s) {
      CallTensors tensors(work_, job, member_.rank(), work_.sizes[s]);
      tensors.fill_random();
      if (work_.check) check(job, weights, tensors, parts[s]);
      time(job, weights, tensors, parts[s]);
      send_(to_text(parts[s]));
    }
  }

 private:
  /// The default plan first: what `fused` is.
  [[nodiscard]] std::array<PlanOptions, 3> ways(const Job& job) const {
    return {options_for(work_.options, job.gemm.op), baseline_options(work_.options, Path::medium),
            baseline_options(work_.options, Path::unfused)};
  }

  void prepare(const Job& job, const RankWeights& weights, bool plain) {
    const std::int64_t m = *std::max_element(work_.sizes.begin(), work_.sizes.end());
    Problem p = problem_of(job.gemm, m, work_.dtype);
    if (plain) p.bias = false, p.activation = Activation::none;
    std::vector<Preparation> list;
    for (const PlanOptions& options : ways(job)) {
      list.push_back({p, weights.weight_views, options});
      if (p.op == Op::ag_gemm) {
        list.push_back(list.back());
        list.back().problem.return_gathered = true;
      }
    }
    list.push_back({p, weights.weight_views, {}});  // for the parts alone
    member_.prepare(list);
    send_("");
  }

  void check_integers(const Job& job, const RankWeights& weights, std::int64_t m, RankPart& part) {
    CallTensors tensors(work_, job, member_.rank(), m);
    tensors.fill_integers();
    tensors.poison();
    tensors.call(member_, weights, ways(job)[0], true, false);
    Verifier(work_, job, member_.rank(), [this] { send_(""); }).check_integers(tensors, part);
  }

  void check(const Job& job, const RankWeights& weights, CallTensors& tensors, RankPart& part) {
    const Verifier verifier(work_, job, member_.rank(), [this] { send_(""); });
    const auto options = ways(job);
    const Problem problem = problem_of(job.gemm, tensors.m(), work_.dtype);
    std::vector<Plan> plans;
    for (const auto& o : options) plans.push_back(query_plan(member_, problem, o));
    const auto run = [&](std::size_t way) {
      tensors.poison();
      tensors.call(member_, weights, options[way], false, false);
      if (way == 0 && problem.op == Op::gemm_ar) part.result_hash = hash_result(tensors);
    };
    verifier.check_fp64(tensors, plans, run, part);
    if (problem.op != Op::ag_gemm) return;
    tensors.poison();
    tensors.call(member_, weights, options[0], false, true);
    verifier.check_gathered(tensors, part);
  }

  /// Rank 0's number, on every rank.
  std::int64_t agree(std::int64_t mine) {
    if (member_.rank() == 0) *static_cast<std::int64_t*>(shared_.local()) = mine;
    member_.barrier();
    const std::int64_t agreed = *static_cast<const std::int64_t*>(shared_.peer(0));
    member_.barrier();
    return agreed;
  }

  void time(const Job& job, const RankWeights& weights, CallTensors& tensors, RankPart& part) {
    const auto options = ways(job);
    const std::array<std::function<void()>, kWays> calls = {
        [&] { tensors.call_gemm(member_, weights); }, [&] { tensors.call_collective(member_); },
        [&] { tensors.call(member_, weights, options[2], false, false); },
        [&] { tensors.call(member_, weights, options[1], false, false); },
        [&] { tensors.call(member_, weights, options[0], false, false); }};
    const auto round = [&](bool keep) {
      for (std::size_t w = 0; w < kWays; ++w) {
        member_.barrier();
        const double begin = seconds_now();
        calls[w]();
        if (keep) part.samples[w].push_back({begin, seconds_now()});
      }
      send_("");
    };
    tensors.call_collective(member_);  // so that no GEMM reads what nobody wrote
    double last = 0;
    for (int i = 0; i < std::max(1, work_.warmup); ++i) {
      const double begin = seconds_now();
      round(false);
      last = seconds_now() - begin;
    }
    std::int64_t iterations = work_.iterations;
    if (iterations == 0) {
      const double fit = kSecondsPerRow / std::max(last, 1e-6);
      iterations = agree(
          static_cast<std::int64_t>(std::clamp<double>(fit, kFewestIterations, kMostIterations)));
    }
    for (std::int64_t i = 0; i < iterations; ++i) round(true);
  }

  const Workload& work_;
  Communicator& member_;
  const Send& send_;
  SymmetricBuffer shared_;
};

}  // namespace

void measure(const Workload& work, Communicator& member, const Send& send) {
  {
    RankMeasurement measurement(work, member, send);
    for (std::size_t j = 0; j < work.jobs.size(); ++j) measurement.run_job(static_cast<int>(j));
  }
  member.barrier();
  if (member.rank() != 0) return;
  const auto findings = member.findings();
  if (!findings.empty()) send(fmt::format("{}{}", kFindings, fmt::join(findings, "\n")));
}

}  // namespace tilelace::cli
