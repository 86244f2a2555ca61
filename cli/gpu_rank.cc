// SPDX-License-Identifier: Apache-2.0
#include "gpu_rank.h"

#include "core/check.h"

namespace tilelace::cli {
namespace {

constexpr int kIterations = 10;

}  // namespace

GpuRank::GpuRank(const Workload& w, Communicator& m, const Send& s)
    : work(w), member(m), send(s), times(m, [&s] { s(""); }), place{&m, times.stream()} {
  if (!work.baselines.empty()) baselines.emplace(member, work, times);
}

std::optional<Plan> GpuRank::fastest(const Job& job, std::int64_t m,
                                     const std::function<void(int, const Plan&)>& call,
                                     std::vector<CallTime>& took) {
  const auto all = candidates_of(work, job, m, member.machine());
  if (all.empty()) return std::nullopt;
  std::vector<std::size_t> there;
  std::vector<GpuCall> calls;
  std::vector<double> predicted_us;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!gpu_has_kernel(all[i].plan, work.dtype)) continue;
    there.push_back(i);
    predicted_us.push_back(all[i].predicted_us);
    calls.emplace_back([&call, &plan = all[i].plan](int turn) { call(turn, plan); });
  }
  require(!there.empty(), "{}: plans, got none whose tile this build has, expected one",
          name_of(job));
  for (const CallTime& c : times.fastest(calls, predicted_us).times)
    took.push_back({there[c.index], c.us});
  return all[took.front().index].plan;
}

std::vector<std::vector<double>> GpuRank::samples(const std::vector<GpuCall>& calls) {
  return times.samples(calls, work.iterations > 0 ? work.iterations : kIterations, work.warmup);
}

}  // namespace tilelace::cli
