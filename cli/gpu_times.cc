// SPDX-License-Identifier: Apache-2.0
#include "gpu_times.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "gpu.h"
#include "machine.h"
#include "op/run_plan.h"

namespace tilelace::cli {
namespace {

/// What each sample runs before and while it is timed (clocks settle under load of its own), as in
/// the records under benchmarks/. Samples that only rank plans are plan::kFullLook.
constexpr double kLoadUs = 40e3, kSampleUs = 10e3;
/// Eager calls whose host time is taken: what the launch queue has room for.
constexpr int kHostCalls = 16, kMostHostRounds = 200;
constexpr double kHostSeconds = 0.1;

}  // namespace

double most_of(Communicator& member, double mine) {
  const std::string bytes(reinterpret_cast<const char*>(&mine), sizeof mine);
  for (const std::string& theirs : op::group_of(member).all_gather(bytes, kMeetSeconds)) {
    double number = 0;
    std::memcpy(&number, theirs.data(), sizeof number);
    mine = std::max(mine, number);
  }
  return mine;
}

GpuTimes::GpuTimes(Communicator& member, std::function<void()> tick, int calls)
    : member_(member), tick_(std::move(tick)), calls_(calls) {
  take_gpu(member.rank());
  timer_ = make_call_timer(member.rank());
}

double GpuTimes::sample(std::size_t number, int load, int timed) {
  member_.barrier();
  timer_->replay(number, load, timed);
  member_.synchronize(timer_->stream());
  return most_of(member_, timer_->timed_us() / timed / calls_);
}

double GpuTimes::prepare(std::size_t number, const GpuCall& call) {
  // First outside of a graph: kernels are loaded, NCCL connects ranks. Nobody captures, which may
  // stop a device, while a peer's collective runs.
  member_.barrier();
  for (const int i : {0, 1}) call(i);
  member_.synchronize(timer_->stream());
  member_.barrier();
  timer_->capture(number, calls_, call);
  sample(number, 1, 1);
  tick_();
  return std::max(sample(number, 1, 1), 0.1);
}

plan::Halving GpuTimes::fastest(const std::vector<GpuCall>& calls,
                                std::span<const double> predicted_us) {
  std::vector<double> about_us;
  for (std::size_t i = 0; i < calls.size(); ++i) about_us.push_back(prepare(i, calls[i]));
  const auto look = [&](std::size_t i, const plan::Look& how) {
    const double us =
        sample(i, replays(how.load_us, about_us[i]), replays(how.timed_us, about_us[i]));
    tick_();
    return plan::Sample{us, false};
  };
  plan::Halving found = plan::fastest_of(predicted_us, look);
  timer_->clear();
  return found;
}

std::vector<std::vector<double>> GpuTimes::samples(const std::vector<GpuCall>& calls, int count,
                                                   int warmup) {
  std::vector<double> call_us;
  for (std::size_t i = 0; i < calls.size(); ++i) call_us.push_back(prepare(i, calls[i]));
  std::vector<std::vector<double>> all(calls.size());
  std::vector<std::size_t> order(calls.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(7);  // the same on every rank
  for (int round = 0; round < count; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const std::size_t i : order) {
      const int load = std::max(warmup, replays(kLoadUs, call_us[i]));
      all[i].push_back(sample(i, load, replays(kSampleUs, call_us[i])));
      tick_();
    }
  }
  timer_->clear();
  return all;
}

double GpuTimes::host_us(const std::function<void()>& call) {
  double best = HUGE_VAL;
  double rounds = kMostHostRounds;
  for (int round = 0; round < rounds; ++round) {
    const double start = seconds_now();
    for (int turn = 0; turn < member_.size(); ++turn) {
      member_.barrier();
      if (turn != member_.rank()) continue;
      call();  // the first one behind a wait finds nothing in caches
      const double begin = seconds_now();
      for (int i = 0; i < kHostCalls; ++i) call();
      best = std::min(best, (seconds_now() - begin) / kHostCalls);
    }
    member_.synchronize(timer_->stream());
    const double fit = kHostSeconds / (seconds_now() - start);
    if (round == 0) rounds = most_of(member_, std::clamp<double>(fit, 1, kMostHostRounds));
  }
  return best * 1e6;
}

}  // namespace tilelace::cli
