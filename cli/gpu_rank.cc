// SPDX-License-Identifier: Apache-2.0
#include "gpu_rank.h"

#include <fmt/format.h>

#include "backend/gpu_sight.h"
#include "core/check.h"
#include "op/run_plan.h"
#include "plan/tuning/disturbance.h"

namespace tilelace::cli {
namespace {

constexpr int kIterations = 10;

[[noreturn]] void refuse(const std::string& seen) {
  raise(
      ErrorKind::system,
      "tune: {}: times would not tell which plan is faster. Wait until the GPUs are free and cool, "
      "or go on with --force",
      seen);
}

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
  require(!there.empty(),
          "{}: this build has no kernel for the plans to time: build without TILELACE_TILES",
          name_of(job));
  const plan::Halving found = times.fastest(calls, predicted_us);
  for (const CallTime& c : found.times) took.push_back({there[c.index], c.us});
  if (work.tunes && !work.force) {
    require_quiet();
    if (const std::string stray = plan::stray_of(found.first_us, found.last_us); !stray.empty())
      refuse(fmt::format("{}: {}", name_of(job), stray));
  }
  return all[took.front().index].plan;
}

void GpuRank::require_quiet() {
  if (!work.tunes || work.force) return;
  const GpuSight sight = look_at_gpu(member.rank());
  const std::string mine = plan::disturbance_of(sight.processes, 1, sight.slowdowns);
  const auto all = op::group_of(member).all_gather(mine, kMeetSeconds);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty()) refuse(fmt::format("rank {}'s GPU: {}", rank, all[rank]));
}

std::vector<std::vector<double>> GpuRank::samples(const std::vector<GpuCall>& calls) {
  return times.samples(calls, work.iterations > 0 ? work.iterations : kIterations, work.warmup);
}

}  // namespace tilelace::cli
