// SPDX-License-Identifier: Apache-2.0
#include "measure.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>

#include "gpu_rank.h"
#include "machine.h"
#include "operands.h"
#include "tilelace/op_table.h"
#include "verify.h"

namespace tilelace::cli {
namespace {

/// What the timing of a row may take, and how many samples it then has.
constexpr double kSecondsPerRow = 1.2;
constexpr int kFewestIterations = 3, kMostIterations = 40;

class RankMeasurement {
 public:
  RankMeasurement(const Workload& work, Communicator& member, const Send& send)
      : work_(work), member_(member), send_(send) {
    if (work.device == Device::cuda) gpu_.emplace(work, member, send).require_quiet();
  }

  void run_job(int index) {
    const Job& job = work_.jobs[static_cast<std::size_t>(index)];
    if (job.then) return measure_mlp(*gpu_, index);
    const auto sizes = work_.sizes.size();
    std::vector<RankPart> parts(sizes);
    for (std::size_t s = 0; s < sizes; ++s)
      parts[s].row = index * static_cast<int>(sizes) + static_cast<int>(s);
    if (std::ranges::none_of(parts, [&](const RankPart& part) { return is_wanted(part.row); }) ||
        is_late())
      return;
    if (work_.check && !work_.tunes && !work_.brief) {
      RankWeights integers = integer_weights(work_, job, member_.rank());
      if (gpu_) move_to_gpu(integers, gpu_->place);
      prepare(job, integers, true, work_.sizes);
      for (std::size_t s = 0; s < sizes; ++s)
        if (is_wanted(parts[s].row)) check_integers(job, integers, work_.sizes[s], parts[s]);
    }
    RankWeights weights = model_weights(work_, job, member_.rank());
    if (gpu_) move_to_gpu(weights, gpu_->place);
    if (!work_.brief) prepare(job, weights, false, work_.sizes);
    for (std::size_t s = 0; gpu_ && !work_.tunes && !work_.brief && s < sizes; ++s) {
      if (!is_wanted(parts[s].row)) continue;
      CallTensors tensors(work_, job, member_.rank(), work_.sizes[s], place());
      tensors.send_input();
      const PlanOptions options = ways_of(work_, job)[0];
      parts[s].host = {
          gpu_->times.host_us([&] { tensors.call(member_, weights, options, false, false); }), 0};
    }
    for (std::size_t s = 0; s < sizes; ++s) {
      if (!is_wanted(parts[s].row)) continue;
      if (is_late()) return;
      // No more room than a user who prepares this very call has.
      if (work_.brief) prepare(job, weights, false, {work_.sizes[s]});
      CallTensors tensors(work_, job, member_.rank(), work_.sizes[s], place());
      tensors.fill_random();
      std::vector<Peer> peers;
      if (gpu_) {
        const auto call = [&](int turn, const Plan& plan) {
          tensors.turn(turn);
          tensors.call(member_, weights, plan);
        };
        chosen_ = gpu_->fastest(job, tensors.m(), call, parts[s].candidates);
        tensors.turn(0);
        if (gpu_->baselines) peers = gpu_->baselines->peers(job, tensors, weights);
        if (work_.brief) std::erase_if(peers, [](const Peer& p) { return p.way != Way::unfused; });
      }
      if (work_.check) check(job, weights, tensors, peers, parts[s]);
      if (work_.tunes)
        parts[s].samples[static_cast<std::size_t>(Way::fused)] = {
            {0, parts[s].candidates.front().us * 1e-6}};
      else
        gpu_ ? time_on_gpu(job, weights, tensors, peers, parts[s])
             : time(job, weights, tensors, parts[s]);
      send_(to_text(parts[s]));
    }
  }

 private:
  [[nodiscard]] bool is_wanted(int row) const {
    return work_.skip.empty() || !work_.skip[static_cast<std::size_t>(row)];
  }
  /// Collective: on all ranks or on none.
  [[nodiscard]] bool is_late() {
    return work_.budget_s > 0 && most_of(member_, seconds_now() - begin_) > work_.budget_s;
  }
  [[nodiscard]] const GpuPlace* place() const { return gpu_ ? &gpu_->place : nullptr; }

  /// The call that is timed as `fused`; `standard`: the first of ways_of.
  void call_fused(CallTensors& tensors, const RankWeights& weights, const PlanOptions& standard) {
    if (chosen_) return tensors.call(member_, weights, *chosen_);
    tensors.call(member_, weights, standard, false, false);
  }

  /// A call to be checked.
  void call(CallTensors& tensors, const RankWeights& weights, const PlanOptions& options,
            bool plain, bool gathered) {
    tensors.call(member_, weights, options, plain, gathered);
    tensors.settle();
  }

  void prepare(const Job& job, const RankWeights& weights, bool plain,
               const std::vector<std::int64_t>& sizes) {
    member_.prepare(preparations(work_, job, weights, member_.machine(), plain, sizes));
    send_("");
  }

  void check_integers(const Job& job, const RankWeights& weights, std::int64_t m, RankPart& part) {
    CallTensors tensors(work_, job, member_.rank(), m, place());
    tensors.fill_integers();
    tensors.poison();
    call(tensors, weights, ways_of(work_, job)[0], true, false);
    Verifier(work_, job, member_.rank(), [this] { send_(""); }).check_integers(tensors, part);
  }

  void check(const Job& job, const RankWeights& weights, CallTensors& tensors,
             const std::vector<Peer>& peers, RankPart& part) {
    const Verifier verifier(work_, job, member_.rank(), [this] { send_(""); });
    const auto options = ways_of(work_, job);
    const Problem problem = problem_of(job.gemm, tensors.m(), work_.dtype);
    std::vector<Plan> plans;
    for (const auto& o : options) plans.push_back(query_plan(member_, problem, o));
    if (chosen_) plans[0] = *chosen_;
    std::vector<const Peer*> delivering;
    for (const Peer& peer : peers) {
      if (!peer.deliver) continue;
      delivering.push_back(&peer);
      plans.push_back(plans.back());
      plans.back().route = RouteKind::ring;  // NCCL may round at each hop
    }
    const auto run = [&](std::size_t way) {
      tensors.poison();
      if (way >= options.size())
        delivering[way - options.size()]->deliver();
      else if (way == 0)
        call_fused(tensors, weights, options[0]);
      else
        tensors.call(member_, weights, options[way], false, false);
      tensors.settle();
      if (way == 0 && row_of(problem.op).shares) part.result_hash = hash_result(tensors);
    };
    verifier.check_fp64(tensors, plans, run, part);
    if (row_of(problem.op).sums) return;
    tensors.poison();
    call(tensors, weights, options[0], false, true);  // the planner's own: room is for it
    verifier.check_gathered(tensors, part);
  }

  void time(const Job& job, const RankWeights& weights, CallTensors& tensors, RankPart& part) {
    const auto options = ways_of(work_, job);
    const std::array<std::function<void()>, 5> calls = {
        [&] { tensors.call_gemm(member_, weights); }, [&] { tensors.call_collective(member_); },
        [&] { tensors.call(member_, weights, options.back(), false, false); },
        [&] { tensors.call(member_, weights, options[1], false, false); },
        [&] { tensors.call(member_, weights, options[0], false, false); }};
    const auto round = [&](bool keep) {
      for (std::size_t w = 0; w < calls.size(); ++w) {
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
      iterations = static_cast<std::int64_t>(
          most_of(member_, std::clamp<double>(fit, kFewestIterations, kMostIterations)));
    }
    for (std::int64_t i = 0; i < iterations; ++i) round(true);
  }

  void time_on_gpu(const Job& job, const RankWeights& weights, CallTensors& tensors,
                   const std::vector<Peer>& peers, RankPart& part) {
    const auto options = ways_of(work_, job);
    std::vector<Way> own;
    std::vector<GpuCall> calls;
    const auto add = [&](std::function<void()> call) {
      calls.emplace_back([&tensors, call = std::move(call)](int i) {
        tensors.turn(i);
        call();
      });
    };
    const auto add_way = [&](Way way, std::function<void()> call) {
      own.push_back(way);
      add(std::move(call));
    };
    if (!work_.brief) {
      add_way(Way::gemm, [&] { tensors.call_gemm(member_, weights); });
      add_way(Way::collective, [&] { tensors.call_collective(member_); });
      add_way(Way::unfused, [&] { tensors.call(member_, weights, options.back(), false, false); });
    }
    if (!work_.brief && options.size() == 3)
      add_way(Way::medium, [&] { tensors.call(member_, weights, options[1], false, false); });
    add_way(Way::fused, [&] { call_fused(tensors, weights, options[0]); });
    for (const Peer& peer : peers) {
      part.peers.push_back({peer.name, peer.way});
      calls.push_back(peer.call);
    }
    if (!part.candidates.empty() && work_.plan.empty() && part.candidates.front().index != 0) {
      part.peers.push_back({"fused_default"});
      add([&] { tensors.call(member_, weights, options[0], false, false); });
    }
    // Nothing reads what nobody wrote.
    for (int i = 0; !work_.brief && i < kGraphCalls; ++i)
      calls[row_of(job.gemm.op).gathers ? 1 : 0](i);
    tensors.settle();
    const auto all = gpu_->samples(calls);
    for (std::size_t w = 0; w < own.size(); ++w)
      for (const double us : all[w])
        part.samples[static_cast<std::size_t>(own[w])].push_back({0, us * 1e-6});
    for (std::size_t p = 0; p < part.peers.size(); ++p) part.peers[p].us = all[own.size() + p];
    tensors.turn(0);
    if (!part.host) return;
    part.host->beside_graphs_us =
        gpu_->times.host_us([&] { call_fused(tensors, weights, options[0]); });
  }

  const Workload& work_;
  Communicator& member_;
  const Send& send_;
  double begin_ = seconds_now();
  std::optional<GpuRank> gpu_;
  std::optional<Plan> chosen_;  ///< of the row, where candidates were timed
};

}  // namespace

void measure(const Workload& work, Communicator& member, const Send& send) {
  {
    RankMeasurement measurement(work, member, send);
    for (std::size_t j = 0; j < work.jobs.size(); ++j) measurement.run_job(static_cast<int>(j));
    member.barrier();  // nobody's memory goes while a peer may still use it
  }
  if (member.rank() != 0) return;
  const auto findings = member.findings();
  if (!findings.empty()) send(fmt::format("{}{}", kFindings, fmt::join(findings, "\n")));
}

}  // namespace tilelace::cli
