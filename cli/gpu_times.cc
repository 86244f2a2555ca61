// SPDX-License-Identifier: Apache-2.0
#include "gpu_times.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "machine.h"
#include "op/run_plan.h"
#include "row.h"

namespace tilelace::cli {
namespace {

/// What each sample runs before and while it is timed (clocks settle under load of its own).
constexpr double kLoadUs = 40e3, kSampleUs = 10e3;
constexpr double kLookLoadUs = 12e3, kLookUs = 6e3;
constexpr std::ptrdiff_t kFinalists = 4;
constexpr int kFinalRounds = 4;
/// Eager calls whose host time is taken: what the launch queue has room for.
constexpr int kHostCalls = 16, kMostHostRounds = 200;
constexpr double kHostSeconds = 0.1;
constexpr double kMeetSeconds = 60;

int replays(double time_us, double call_us) {
  return static_cast<int>(std::clamp(std::ceil(time_us / (call_us * kGraphCalls)), 1.0, 1e3));
}

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

GpuTimes::GpuTimes(Communicator& member, std::function<void()> tick)
    : member_(member), tick_(std::move(tick)), timer_(member.rank()) {}

double GpuTimes::sample(std::size_t number, int load, int timed) {
  member_.barrier();
  timer_.replay(number, load, timed);
  member_.synchronize(timer_.stream());
  return most_of(member_, timer_.timed_us() / timed / kGraphCalls);
}

double GpuTimes::prepare(std::size_t number, const GpuCall& call) {
  // First outside of a graph: kernels are loaded, NCCL connects ranks. Nobody captures, which may
  // stop a device, while a peer's collective runs.
  member_.barrier();
  for (const int i : {0, 1}) call(i);
  member_.synchronize(timer_.stream());
  member_.barrier();
  timer_.capture(number, kGraphCalls, call);
  sample(number, 1, 1);
  tick_();
  return std::max(sample(number, 1, 1), 0.1);
}

std::vector<CallTime> GpuTimes::fastest(const std::vector<GpuCall>& calls) {
  struct Look {
    CallTime call;
    std::vector<double> samples;
  };
  std::vector<Look> looks;
  for (std::size_t i = 0; i < calls.size(); ++i) looks.push_back({{i, prepare(i, calls[i])}, {}});
  const auto look = [&](Look& l, double load_us, double timed_us) {
    const double us = l.call.us;
    l.samples.push_back(sample(l.call.index, replays(load_us, us), replays(timed_us, us)));
    tick_();
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
  timer_.clear();
  std::vector<CallTime> all;
  for (const Look& l : looks) all.push_back({l.call.index, quantile(l.samples, 0.5)});
  return all;
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
  timer_.clear();
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
    member_.synchronize(timer_.stream());
    const double fit = kHostSeconds / (seconds_now() - start);
    if (round == 0) rounds = most_of(member_, std::clamp<double>(fit, 1, kMostHostRounds));
  }
  return best * 1e6;
}

}  // namespace tilelace::cli
