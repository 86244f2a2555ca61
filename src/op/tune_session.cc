// SPDX-License-Identifier: Apache-2.0
#include "op/tune_session.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "backend/gpu_sight.h"
#include "core/check.h"
#include "op/impl.h"
#include "op/run_plan.h"
#include "plan/base/expert_product.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/gpu/kernel_choice.h"
#include "plan/tuning/disturbance.h"
#include "plan/tuning/find_tuning.h"
#include "plan/words/agreement.h"

namespace tilelace::op {
namespace {

/// Bytes of a text that ranks tell each other.
constexpr std::size_t kMostSaid = 2000;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The largest of all ranks' numbers, each, on every rank. Collective.
std::array<double, 2> most_of_all(comm::Group& group, std::array<double, 2> mine,
                                  double timeout_s) {
  const std::string_view bytes(reinterpret_cast<const char*>(mine.data()), sizeof mine);
  std::array<double, 2> most = mine;
  for (const std::string& theirs : group.all_gather(bytes, timeout_s)) {
    std::array<double, 2> numbers{};
    std::memcpy(numbers.data(), theirs.data(), std::min(theirs.size(), sizeof numbers));
    for (std::size_t i = 0; i < most.size(); ++i) most.at(i) = std::max(most.at(i), numbers.at(i));
  }
  return most;
}

/// All ranks of a communicator as another one, which plans by prediction.
Communicator beside(Communicator::Impl& impl) {
  CommunicatorOptions o = impl.options;
  o.tuning = nullptr;
  o.tuning_file = plan::kNoTuning;
  o.cache.clear();
  o.autotune = 0;
  std::vector<int> all(static_cast<std::size_t>(impl.group->ranks()));
  std::iota(all.begin(), all.end(), 0);
  return Communicator::Impl::joined(
      std::make_unique<Communicator::Impl>(impl.group->subgroup(all, o.timeout_s), o));
}

/// What the first call took; 0: it was not timed to the end.
double us_of_first(const plan::Halving& found) {
  for (const plan::CallTime& t : found.times)
    if (t.index == 0) return t.us;
  return 0;
}

/// With one row: so that tiles are timed on the way on which calls get them.
std::shared_ptr<const plan::TuningTable> table_of(const plan::GroupedProduct& product,
                                                  const plan::GroupedShape& shape,
                                                  const Machine& machine) {
  auto table = std::make_shared<plan::TuningTable>();
  table->device = plan::device_of(machine, "");
  table->grouped = {{product, shape, 0}};
  return table;
}

}  // namespace

TuneSession::TuneSession(Communicator::Impl& of, const TuneOptions& options)
    : options_(options),
      timeout_s_(of.options.timeout_s),
      member_(beside(of)),
      timer_(make_call_timer(of.options.device_index)),
      begin_s_(now_s()) {}

void TuneSession::end() {
  timer_->clear();
  member_.barrier();  // nobody's memory goes while a peer may still use it
}

double TuneSession::elapsed_s() {
  return most_of_all(group_of(member_), {now_s() - begin_s_, 0}, timeout_s_)[0];
}

std::string TuneSession::first_of(const std::string& mine) {
  const auto all =
      group_of(member_).all_gather(std::string_view(mine).substr(0, kMostSaid), timeout_s_);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty()) return fmt::format("rank {}: {}", rank, all[rank]);
  return "";
}

std::string TuneSession::disturbance() {
  const GpuSight sight = look_at_gpu(member_.impl().options.device_index);
  return first_of(options_.force ? "" : plan::disturbance_of(sight.processes, 1, sight.slowdowns));
}

std::vector<TuneSession::Candidate> TuneSession::candidates_of(const Problem& p) const {
  const Machine machine = member_.machine();
  const Backend& backend = *member_.impl().backend;
  const Plan standard = make_plan(p, machine);
  std::vector<Candidate> all;
  std::map<std::string, int> of_kind;
  if (backend.has_kernel(standard, p.dtype)) all.push_back({standard});
  for (plan::CudaWay& way : plan::cuda_ways(p, machine)) {
    if (!plan::may_be_tuned(way.plan.kernel->way) || !backend.has_kernel(way.plan, p.dtype))
      continue;
    if (plan::choice_bytes(way.plan) == plan::choice_bytes(standard))
      all.front().predicted_us = way.predicted_us;
    else if (of_kind[way.kind]++ < options_.candidates)
      all.push_back({std::move(way.plan), way.predicted_us});
  }
  require(!all.empty(), "{}: this build has no kernel for any plan of this problem", name_of(p.op));
  return all;
}

template <class Operands, class Asked>
bool TuneSession::has_memory(const Asked& asked, std::optional<Operands>& operands,
                             std::string& why) {
  std::string missing;
  try {
    operands.emplace(member_, asked, values_);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::system) throw;
    missing = e.what();
  }
  why = first_of(missing);
  return why.empty();
}

bool TuneSession::steady(const plan::Halving& found, std::string& why) const {
  why = options_.force ? "" : plan::stray_of(found.first_us, found.last_us);
  return why.empty();
}

std::optional<TunedProblem> TuneSession::tune(const Problem& problem, double seconds,
                                              std::string& why) {
  const Problem p = tuned_part(problem);
  std::optional<TuneOperands> operands;
  if (!has_memory(p, operands, why)) return std::nullopt;
  const std::array<Preparation, 1> room{Preparation{p, {}, {}}};
  member_.prepare_more(room);
  const std::vector<Candidate> all = candidates_of(p);
  std::vector<TimedCall> calls;
  for (const Candidate& c : all)
    calls.push_back({[&](int i) { run_plan(member_, operands->call(i, timer_->stream()), c.plan); },
                     c.predicted_us});
  const plan::Halving found = timed(calls, seconds);
  const std::size_t best = found.times.front().index;
  check(*operands, calls[best].run,
        fmt::format("{}: plan {}", fmt::streamed(p), fmt::streamed(all[best].plan)));
  if (!steady(found, why)) return std::nullopt;
  return TunedProblem{p, all[best].plan, found.times.front().us, us_of_first(found),
                      found.times.size()};
}

std::optional<FoundTiles> TuneSession::tune(const AskedTiles& asked, double seconds,
                                            std::string& why) {
  std::optional<ExpertOperands> operands;
  if (!has_memory(asked, operands, why)) return std::nullopt;
  const plan::GroupedProduct product = plan::expert_product(asked.layer, asked.m, asked.first);
  Backend& backend = *member_.impl().backend;
  backend.moe_passes().prepare(product.k);
  const plan::GroupedPlans& plans = plan::plans_of(backend.machine().architecture).grouped;
  std::vector<plan::GroupedShape> all{plans.rule(product)};
  for (const plan::GroupedShape& shape : plans.shapes)
    if (shape != all.front()) all.push_back(shape);
  std::vector<TimedCall> calls;
  for (const plan::GroupedShape& shape : all)
    calls.push_back({[&, tiles = &shape](int i) {
      backend.take_tuning(table_of(product, *tiles, backend.machine()));
      backend.moe_passes().grouped_gemm(operands->call(i, timer_->stream()));
    }});
  const plan::Halving found = timed(calls, seconds);
  const std::size_t best = found.times.front().index;
  std::vector<TimedTiles> times;
  for (const plan::CallTime& t : found.times)
    times.push_back({std::string(all[t.index].name), t.us});
  check(*operands, calls[best].run,
        fmt::format("{} of {} tokens: tiles {}", asked.first ? "ag_moe" : "moe_rs", asked.m,
                    times.front().tiles));
  if (!steady(found, why)) return std::nullopt;
  return FoundTiles{
      product, all[best], {asked.m, asked.first, std::move(times), us_of_first(found)}};
}

plan::Halving TuneSession::timed(std::vector<TimedCall>& all, double seconds) {
  const double end_s = seconds > 0 ? now_s() + seconds : HUGE_VAL;
  // Of a short limit, settling takes an eighth at most.
  const double most_load_us = seconds > 0 ? 1e6 * seconds / 8 : HUGE_VAL;
  std::vector<double> predicted_us;  // of captured calls
  for (bool late = false; predicted_us.size() < all.size() && !late;) {
    TimedCall& c = all[predicted_us.size()];
    late = capture(predicted_us.size(), c, end_s);
    predicted_us.push_back(c.predicted_us);
  }
  plan::Halving found = plan::fastest_of(predicted_us, [&](std::size_t i, const plan::Look& look) {
    const double us = all[i].about_us, load_us = std::min(look.load_us, most_load_us);
    return sample(i, replays(load_us, us), replays(look.timed_us, us), end_s);
  });
  timer_->clear();
  return found;
}

bool TuneSession::capture(std::size_t number, TimedCall& c, double end_s) {
  // First outside of a graph: kernels are loaded. Nobody captures, which may stop a device, while a
  // peer's collective runs.
  member_.barrier();
  for (const int i : {0, 1}) c.run(i);
  member_.synchronize(timer_->stream());
  member_.barrier();
  timer_->capture(number, kGraphCalls, c.run);
  sample(number, 1, 1, end_s);
  const plan::Sample again = sample(number, 1, 1, end_s);
  c.about_us = std::max(again.us, 0.1);
  return again.late;
}

plan::Sample TuneSession::sample(std::size_t number, int load, int timed, double end_s) {
  member_.barrier();
  timer_->replay(number, load, timed);
  member_.synchronize(timer_->stream());
  const auto most = most_of_all(
      group_of(member_), {timer_->timed_us() / timed / kGraphCalls, now_s() - end_s}, timeout_s_);
  return {most[0], most[1] >= 0};
}

template <class Operands>
void TuneSession::check(Operands& operands, const std::function<void(int)>& run,
                        const std::string& what) {
  operands.poison();
  run(0);
  member_.synchronize(timer_->stream());
  const std::string wrong = first_of(operands.wrong());
  if (!wrong.empty()) raise(ErrorKind::system, "tune: {}: {}", what, wrong);
}

}  // namespace tilelace::op
