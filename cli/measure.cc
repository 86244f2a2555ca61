// SPDX-License-Identifier: Apache-2.0
#include "measure.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <optional>

#include "gpu.h"
#include "machine.h"
#include "operands.h"
#include "verify.h"

namespace tilelace::cli {
namespace {

/// What the timing of a row may take, and how many samples it then has.
constexpr double kSecondsPerRow = 1.2;
constexpr int kFewestIterations = 3, kMostIterations = 40;
/// On GPUs: samples, calls of a graph, and what each sample runs
/// before and while it is timed (clocks settle under load of its own).
constexpr int kGpuIterations = 10, kGraphCalls = 16;
constexpr double kLoadUs = 40e3, kSampleUs = 10e3;
/// Candidates: a look at each, forwards and backwards, as clocks drift; then samples of the best.
constexpr double kLookLoadUs = 10e3, kLookUs = 4e3;
constexpr std::ptrdiff_t kFinalists = 4;
constexpr int kFinalRounds = 4;
/// Eager calls whose host time is taken: what the launch queue has room for.
constexpr int kHostCalls = 16, kMostHostRounds = 200;
constexpr double kHostSeconds = 0.1;

class RankMeasurement {
 public:
  RankMeasurement(const Workload& work, Communicator& member, const Send& send)
      : work_(work), member_(member), send_(send), shared_(member, sizeof(std::int64_t)) {
    if (work.device != Device::cuda) return;
    gpu_.emplace(member.rank());
    place_ = {&member, gpu_->stream()};
  }

  void run_job(int index) {
    const Job& job = work_.jobs[static_cast<std::size_t>(index)];
    const auto sizes = work_.sizes.size();
    std::vector<RankPart> parts(sizes);
    for (std::size_t s = 0; s < sizes; ++s)
      parts[s].row = index * static_cast<int>(sizes) + static_cast<int>(s);
    if (work_.check) {
      RankWeights integers = integer_weights(work_, job, member_.rank());
      if (gpu_) move_to_gpu(integers, place_);
      prepare(job, integers, true);
      for (std::size_t s = 0; s < sizes; ++s)
        check_integers(job, integers, work_.sizes[s], parts[s]);
    }
    RankWeights weights = model_weights(work_, job, member_.rank());
    if (gpu_) move_to_gpu(weights, place_);
    prepare(job, weights, false);
    for (std::size_t s = 0; gpu_ && s < sizes; ++s) {
      CallTensors tensors(work_, job, member_.rank(), work_.sizes[s], place());
      tensors.send_input();
      const PlanOptions options = ways(job)[0];
      parts[s].host = {host_us([&] { tensors.call(member_, weights, options, false, false); }), 0};
    }
    for (std::size_t s = 0; s < sizes; ++s) {
      CallTensors tensors(work_, job, member_.rank(), work_.sizes[s], place());
      tensors.fill_random();
      chosen_.reset();
      choose(job, weights, tensors, parts[s]);
      if (work_.check) check(job, weights, tensors, parts[s]);
      gpu_ ? time_on_gpu(job, weights, tensors, parts[s]) : time(job, weights, tensors, parts[s]);
      send_(to_text(parts[s]));
    }
  }

 private:
  [[nodiscard]] const GpuPlace* place() const { return gpu_ ? &place_ : nullptr; }

  /// The default plan first: what `fused` is. The unfused one comes last.
  [[nodiscard]] std::vector<PlanOptions> ways(const Job& job) const {
    std::vector<PlanOptions> all{options_for(work_.options, job)};
    for (const Path path : baseline_paths(work_.device, job.gemm.op))
      all.push_back(baseline_options(work_.options, path, work_.device));
    return all;
  }

  /// The call that is timed as `fused`.
  void call_fused(CallTensors& tensors, const Job& job, const RankWeights& weights) {
    if (chosen_) return tensors.call(member_, weights, *chosen_);
    tensors.call(member_, weights, ways(job)[0], false, false);
  }

  /// A call to be checked.
  void call(CallTensors& tensors, const RankWeights& weights, const PlanOptions& options,
            bool plain, bool gathered) {
    tensors.call(member_, weights, options, plain, gathered);
    tensors.settle();
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
    if (!plain) add_room(job, p, weights, list);
    member_.prepare(list);
    send_("");
  }

  /// What candidates need beyond what the planner's choice does, once for each of its kind.
  void add_room(const Job& job, Problem p, const RankWeights& weights,
                std::vector<Preparation>& list) const {
    for (const std::int64_t m : work_.sizes) {
      p.m = m;
      std::vector<PlanOptions> rooms;
      for (const auto& way : candidates_of(work_, job, m, member_.machine())) {
        const PlanOptions room = room_for(way.plan);
        if (std::find(rooms.begin(), rooms.end(), room) != rooms.end()) continue;
        rooms.push_back(room);
        list.push_back({p, weights.weight_views, room});
      }
    }
  }

  /// The fastest candidate is what `fused` runs from here on.
  void choose(const Job& job, const RankWeights& weights, CallTensors& tensors, RankPart& part) {
    const auto all = candidates_of(work_, job, tensors.m(), member_.machine());
    struct Look {
      std::size_t index = 0;
      double call_us = 0;
      std::vector<double> samples;
    };
    std::vector<Look> looks;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!gpu_has_kernel(all[i].plan, work_.dtype)) continue;
      gpu_->capture(i, kGraphCalls, [&] { tensors.call(member_, weights, all[i].plan); });
      sample(i, 1, 1);
      looks.push_back({i, slowest(sample(i, 1, 1)), {}});
      send_("");
    }
    if (looks.empty()) return;
    const auto look = [&](Look& l, double load_us, double timed_us) {
      const double replay_us = std::max(l.call_us, 0.1) * kGraphCalls;
      const auto fit = [&](double us) { return std::max(1, static_cast<int>(us / replay_us)); };
      l.samples.push_back(slowest(sample(l.index, fit(load_us), fit(timed_us))));
      send_("");
    };
    const auto faster = [](const Look& a, const Look& b) {
      return quantile(a.samples, 0.5) < quantile(b.samples, 0.5);
    };
    for (Look& l : looks) look(l, kLookLoadUs, kLookUs);
    for (auto l = looks.rbegin(); l != looks.rend(); ++l) look(*l, kLookLoadUs, kLookUs);
    std::stable_sort(looks.begin(), looks.end(), faster);
    const auto last = looks.begin() + std::min(std::ssize(looks), kFinalists);
    std::for_each(looks.begin(), last, [](Look& l) { l.samples.clear(); });
    for (int round = 0; round < kFinalRounds; ++round)
      std::for_each(looks.begin(), last, [&](Look& l) { look(l, kLoadUs, kSampleUs); });
    std::stable_sort(looks.begin(), last, faster);
    for (const Look& l : looks) part.candidates.push_back({l.index, quantile(l.samples, 0.5)});
    chosen_ = all[looks.front().index].plan;
    gpu_->clear();
  }

  void check_integers(const Job& job, const RankWeights& weights, std::int64_t m, RankPart& part) {
    CallTensors tensors(work_, job, member_.rank(), m, place());
    tensors.fill_integers();
    tensors.poison();
    call(tensors, weights, ways(job)[0], true, false);
    Verifier(work_, job, member_.rank(), [this] { send_(""); }).check_integers(tensors, part);
  }

  void check(const Job& job, const RankWeights& weights, CallTensors& tensors, RankPart& part) {
    const Verifier verifier(work_, job, member_.rank(), [this] { send_(""); });
    const auto options = ways(job);
    const Problem problem = problem_of(job.gemm, tensors.m(), work_.dtype);
    std::vector<Plan> plans;
    for (const auto& o : options) plans.push_back(query_plan(member_, problem, o));
    if (chosen_) plans[0] = *chosen_;
    const auto run = [&](std::size_t way) {
      tensors.poison();
      way == 0 ? call_fused(tensors, job, weights)
               : tensors.call(member_, weights, options[way], false, false);
      tensors.settle();
      if (way == 0 && problem.op == Op::gemm_ar) part.result_hash = hash_result(tensors);
    };
    verifier.check_fp64(tensors, plans, run, part);
    if (problem.op != Op::ag_gemm) return;
    tensors.poison();
    call(tensors, weights, options[0], false, true);  // the planner's own: room is for it
    verifier.check_gathered(tensors, part);
  }

  /// Rank 0's number, on every rank.
  std::int64_t agree(std::int64_t mine) {
    const auto copy = [this](void* to, const void* from) {
      gpu_ ? copy_bytes(to, from, sizeof mine) : void(std::memcpy(to, from, sizeof mine));
    };
    if (member_.rank() == 0) copy(shared_.local(), &mine);
    member_.barrier();
    std::int64_t agreed = 0;
    copy(&agreed, shared_.peer(0));
    member_.barrier();
    return agreed;
  }

  /// The largest of all ranks' numbers, on every rank.
  double slowest(double mine) {
    copy_bytes(shared_.local(), &mine, sizeof mine);
    member_.barrier();
    double most = 0;
    for (int rank = 0; rank < member_.size(); ++rank) {
      double theirs = 0;
      copy_bytes(&theirs, shared_.peer(rank), sizeof theirs);
      most = std::max(most, theirs);
    }
    member_.barrier();
    return most;
  }

  void time(const Job& job, const RankWeights& weights, CallTensors& tensors, RankPart& part) {
    const auto options = ways(job);
    const std::array<std::function<void()>, kWays> calls = {
        [&] { tensors.call_gemm(member_, weights); }, [&] { tensors.call_collective(member_); },
        [&] { tensors.call(member_, weights, options.back(), false, false); },
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

  /// Replays of a way's graph; what a call took, the slowest rank's where it is joined.
  double sample(std::size_t way, int load, int timed) {
    member_.barrier();
    gpu_->replay(way, load, timed);
    member_.synchronize(gpu_->stream());
    return gpu_->timed_us() / timed / kGraphCalls;
  }

  /// Graphs of calls; a sample is of a rank's own clock, so that it begins at 0.
  void time_on_gpu(const Job& job, const RankWeights& weights, CallTensors& tensors,
                   RankPart& part) {
    const auto options = ways(job);
    std::map<Way, std::function<void()>> calls = {
        {Way::gemm, [&] { tensors.call_gemm(member_, weights); }},
        {Way::collective, [&] { tensors.call_collective(member_); }},
        {Way::unfused, [&] { tensors.call(member_, weights, options.back(), false, false); }},
        {Way::fused, [&] { call_fused(tensors, job, weights); }}};
    if (options.size() == 3)
      calls[Way::medium] = [&] { tensors.call(member_, weights, options[1], false, false); };
    tensors.call_collective(member_);  // the gathered rows: no GEMM reads what nobody wrote
    tensors.settle();
    std::map<Way, std::pair<int, int>> replays;
    for (const auto& [way, call] : calls) {
      const auto number = static_cast<std::size_t>(way);
      gpu_->capture(number, kGraphCalls, call);
      sample(number, 1, 1);
      const auto ns = static_cast<std::int64_t>(sample(number, 1, 1) * 1e3);
      const double us = static_cast<double>(std::max<std::int64_t>(1, agree(ns))) * 1e-3;
      const auto fit = [&](double time) {
        return static_cast<int>(std::clamp(std::ceil(time / (us * kGraphCalls)), 1.0, 1e3));
      };
      replays[way] = {std::max(work_.warmup, fit(kLoadUs)), fit(kSampleUs)};
    }
    const int iterations = work_.iterations > 0 ? work_.iterations : kGpuIterations;
    for (int i = 0; i < iterations; ++i) {
      for (const auto& [way, counts] : replays) {
        const auto number = static_cast<std::size_t>(way);
        part.samples[number].push_back({0, sample(number, counts.first, counts.second) * 1e-6});
      }
      send_("");
    }
    gpu_->clear();
    part.host->beside_graphs_us = host_us(calls.at(Way::fused));
  }

  /// Of an eager call: what the host is busy with it, one behind the other, while the launch queue
  /// has room. Ranks take turns, for threads of one process would wait for each other in the
  /// driver.
  double host_us(const std::function<void()>& call) {
    double best = HUGE_VAL;
    std::int64_t rounds = kMostHostRounds;
    for (std::int64_t round = 0; round < rounds; ++round) {
      const double start = seconds_now();
      for (int turn = 0; turn < member_.size(); ++turn) {
        member_.barrier();
        if (turn != member_.rank()) continue;
        call();  // the first one behind a wait finds nothing in caches
        const double begin = seconds_now();
        for (int i = 0; i < kHostCalls; ++i) call();
        best = std::min(best, (seconds_now() - begin) / kHostCalls);
      }
      member_.synchronize(gpu_->stream());
      const double fit = kHostSeconds / (seconds_now() - start);
      if (round == 0) rounds = agree(std::llround(std::clamp<double>(fit, 1, kMostHostRounds)));
    }
    return best * 1e6;
  }

  const Workload& work_;
  Communicator& member_;
  const Send& send_;
  SymmetricBuffer shared_;
  std::optional<GpuTimer> gpu_;
  GpuPlace place_;
  std::optional<Plan> chosen_;  ///< of the row, where candidates were timed
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
