// SPDX-License-Identifier: Apache-2.0
// Plans by measurement: asked for, and in the first call of a problem.
#include "tilelace/tune.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "backend/prepared_calls.h"
#include "core/check.h"
#include "core/read_text.h"
#include "core/say.h"
#include "core/write_text.h"
#include "op/impl.h"
#include "op/tune_session.h"
#include "plan/base/problem.h"
#include "plan/gpu/gpu_plan.h"
#include "plan/tuning/tuned_plan.h"

namespace tilelace {
namespace {

void check_tune(const Communicator::Impl& impl, std::span<const Problem> problems,
                const TuneOptions& o) {
  const Machine machine = impl.backend->machine();
  require(!machine.shared_device, "tune: max_workers must be 0: tables are for whole GPUs");
  require(o.seconds > 0 && o.seconds <= 1e7, "tune: seconds: got {}, expected more than 0",
          o.seconds);
  require(o.problem_seconds >= 0 && o.problem_seconds <= 1e7,
          "tune: problem seconds: got {}, expected 0 or more", o.problem_seconds);
  require(o.candidates >= 1 && o.candidates <= 1000, "tune: candidates: got {}, expected 1 to 1000",
          o.candidates);
  for (const Problem& p : problems) {
    plan::check_problem(p);
    require(p.ranks == impl.group->ranks(), "tune: {}: ranks: got {}, expected the group's {}",
            name_of(p.op), p.ranks, impl.group->ranks());
    plan::make_cuda_plan(p, machine, {});
  }
}

/// That all ranks tune the same, or that one cannot. Errors: usage, on every rank.
void agree(Communicator::Impl& impl, std::span<const Problem> problems, const TuneOptions& o) {
  std::string mine =
      fmt::format("seconds {} a problem {} candidates {}{}{}", o.seconds, o.problem_seconds,
                  o.candidates, o.again ? ", again" : "", o.force ? ", forced" : "");
  for (const Problem& p : problems) mine += fmt::format("\n{}", fmt::streamed(op::tuned_part(p)));
  std::string refusal;
  try {
    check_tune(impl, problems, o);
  } catch (const Error& e) {
    refusal = e.what();
  }
  agree_on_calls(*impl.group, "tune", mine, refusal, impl.options.timeout_s);
  if (!refusal.empty()) raise(ErrorKind::usage, "{}", refusal);
}

[[noreturn]] void refuse_times(std::string_view seen) {
  raise(ErrorKind::system,
        "tune: plans cannot be compared now: {}; wait until the GPUs are free, or force it", seen);
}

void tune_all(Communicator::Impl& impl, std::span<const Problem> problems, const TuneOptions& o,
              TuneResult& result) {
  op::TuneSession session(impl, o);
  const auto require_quiet = [&] {
    if (const std::string seen = session.disturbance(); !seen.empty()) refuse_times(seen);
  };
  require_quiet();
  std::vector<Problem> done;
  for (const Problem& asked : problems) {
    const Problem p = op::tuned_part(asked);
    if (p.m == 0 || std::ranges::find(done, p) != done.end()) continue;
    done.push_back(p);
    if (!o.again && plan::has_own_row(impl.tuning.table().get(), p, impl.backend->machine()))
      continue;
    if (session.elapsed_s() > o.seconds) {
      ++result.left;
      continue;
    }
    std::string why;
    const auto row = session.tune(p, o.problem_seconds, why);
    if (!row) refuse_times(why);
    require_quiet();
    impl.keep(*row);
    result.rows.push_back(*row);
  }
  session.end();
}

}  // namespace

TuneResult tune(Communicator& c, std::span<const Problem> problems, const TuneOptions& options) {
  Communicator::Impl& impl = c.impl();
  TuneResult result;
  impl.call_alone("tune", [&] {
    // All ranks see that: nobody waits.
    require(impl.options.device == Device::cuda, "tune: CPU ranks have nothing to tune");
    agree(impl, problems, options);
    tune_all(impl, problems, options, result);
    result.text = impl.tuning.text();
    const auto table = plan::tuning_of("what was tuned here", result.text);
    if (!table->rows.empty()) result.table = table;
  });
  return result;
}

void write_tuning(const TuneResult& result, const std::string& file) {
  require(result.table != nullptr, "tuning: {}: nothing was tuned, so there is nothing to write",
          file);
  plan::TuningDraft all(file, result.table->device, result.text);
  std::error_code error;
  if (std::filesystem::exists(file, error)) {
    const std::string there = read_text("tuning", file, plan::kMostTuningBytes);
    if (plan::TuningDraft(file, result.table->device, there).note().empty()) all.merge(file, there);
  }
  write_text("tuning", file, all.text());
}

bool Communicator::Impl::is_first(const Problem& problem, void* stream) {
  if (options.autotune == 0 || options.device != Device::cuda || settled.contains(problem))
    return false;
  const Machine machine = backend->machine();
  if (machine.shared_device || problem.m == 0 ||
      plan::has_own_row(tuning.table().get(), problem, machine)) {
    if (machine.shared_device)
      say_once("autotune: plans for a share of the device (max_workers) are not tuned");
    settled.insert(problem);
    return false;
  }
  try {
    return !backend->is_captured(stream);
  } catch (const Error&) {  // a broken capture: the call says so
    return false;
  }
}

void Communicator::Impl::tune_first(const Problem& problem, std::string_view refusal,
                                    void* stream) {
  agree_on_calls(*group, name_of(problem.op), fmt::format("{}", fmt::streamed(problem)), refusal,
                 options.timeout_s);
  if (!refusal.empty()) return;
  if (group->rank() == 0)
    say_once(
        "autotune: first calls are timed; a plan fixes the order of sums, so that results may "
        "differ in the last bit from one run to the next (deterministic keeps predictions)");
  backend->synchronize(stream, options.timeout_s);
  std::string why;
  std::optional<TunedProblem> row;
  {
    op::TuneSession session(*this, {});
    why = session.disturbance();
    if (why.empty()) row = session.tune(problem, options.autotune, why);
    session.end();
  }
  settled.insert(problem);
  if (row)
    keep(*row);
  else if (group->rank() == 0)
    say(fmt::format("autotune: {}: {}: the prediction stays", fmt::streamed(problem), why));
}

}  // namespace tilelace
