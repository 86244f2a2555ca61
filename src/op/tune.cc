// SPDX-License-Identifier: Apache-2.0
// Plans by measurement: asked for, and in the first call of a problem.
#include "tilelace/tune.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <vector>

#include "backend/prepared_calls.h"
#include "core/check.h"
#include "core/read_text.h"
#include "core/say.h"
#include "core/write_text.h"
#include "op/impl.h"
#include "op/moe_checks.h"
#include "op/tune_session.h"
#include "plan/base/expert_product.h"
#include "plan/base/problem.h"
#include "plan/gemm/architecture_plans.h"
#include "plan/gpu/gpu_plan.h"
#include "plan/tuning/tuned_plan.h"
#include "plan/tuning/tuned_tiles.h"

namespace tilelace {
namespace {

void check_options(const Machine& machine, const TuneOptions& o) {
  require(!machine.shared_device, "tune: max_workers must be 0: tables are for whole GPUs");
  require(o.seconds > 0 && o.seconds <= 1e7,
          "tune: seconds: got {}, expected more than 0 and at most 1e7", o.seconds);
  require(o.problem_seconds >= 0 && o.problem_seconds <= 1e7,
          "tune: problem seconds: got {}, expected 0 to 1e7", o.problem_seconds);
  require(o.candidates >= 1 && o.candidates <= 1000, "tune: candidates: got {}, expected 1 to 1000",
          o.candidates);
}

void check_problems(const Communicator::Impl& impl, std::span<const Problem> problems) {
  for (const Problem& p : problems) {
    plan::check_problem(p);
    require(p.ranks == impl.group->ranks(), "tune: {}: ranks: got {}, expected the group's {}",
            name_of(p.op), p.ranks, impl.group->ranks());
    plan::make_cuda_plan(p, impl.backend->machine(), {});
  }
}

void check_experts(const Machine& machine, const MoeLayer& layer,
                   std::span<const std::int64_t> sizes) {
  constexpr std::string_view kName = "tune_experts";
  plan::grouped_plans_of(kName, machine.architecture);
  op::check_layer(kName, layer);
  require(row_of(layer.dtype).on_gpus, "{}: dtype: got {}, expected {}", kName,
          name_of(layer.dtype), names_of_gpu_dtypes());
  require(op::experts_here(layer) <= plan::kMostMoeExperts,
          "{}: experts of this rank: got {}, expected at most {}", kName, op::experts_here(layer),
          plan::kMostMoeExperts);
  require(layer.top_k <= layer.experts, "{}: top_k: got {}, expected at most the {} experts", kName,
          layer.top_k, layer.experts);
  for (const std::int64_t m : sizes) static_cast<void>(op::map_of(kName, layer, m));
}

/// That all ranks tune the same, or that one cannot. `check` returns the words of what is tuned.
/// Errors: usage, on every rank.
template <class Check>
void agree(Communicator::Impl& impl, const TuneOptions& o, const Check& check) {
  std::string mine, refusal;
  try {
    check_options(impl.backend->machine(), o);
    mine = fmt::format("seconds {} a problem {} candidates {}{}{}{}", o.seconds, o.problem_seconds,
                       o.candidates, o.again ? ", again" : "", o.force ? ", forced" : "", check());
  } catch (const Error& e) {
    refusal = e.what();
  }
  agree_on_calls(*impl.group, "tune", mine, refusal, impl.options.timeout_s);
  if (!refusal.empty()) raise(ErrorKind::usage, "{}", refusal);
}

[[noreturn]] void refuse_times(std::string_view seen) {
  raise(ErrorKind::system,
        "tune: plans cannot be compared now: {}; wait until the GPUs are free and cool, or pass "
        "force (`tilelace tune --force`)",
        seen);
}

/// One after the other. `key`: what a table has a row for; `take`: gets each found row.
template <class Asked, class Key, class Take>
void tune_all(Communicator::Impl& impl, const std::vector<Asked>& all, const TuneOptions& o,
              TuneResult& result, const Key& key, const Take& take) {
  op::TuneSession session(impl, o);
  const auto require_quiet = [&] {
    if (const std::string seen = session.disturbance(); !seen.empty()) refuse_times(seen);
  };
  require_quiet();
  for (const Asked& asked : all) {
    if (!o.again &&
        plan::has_own_row(impl.tuning.table().get(), key(asked), impl.backend->machine()))
      continue;
    if (session.elapsed_s() > o.seconds) {
      ++result.left;
      continue;
    }
    std::string why;
    const auto row = session.tune(asked, o.problem_seconds, why);
    if (!row) refuse_times(why);
    require_quiet();
    impl.keep(*row);
    take(*row);
  }
  session.end();
}

/// As long as nobody is in a call: `tune` fills the rows of the result.
template <class Tune>
TuneResult tuned(Communicator::Impl& impl, const Tune& tune) {
  TuneResult result;
  impl.call_alone("tune", [&] {
    // All ranks see that: nobody waits.
    require(impl.options.device == Device::cuda, "tune: CPU ranks have nothing to tune");
    tune(result);
    result.text = impl.tuning.text();
    const auto table = plan::tuning_of("what was tuned here", result.text);
    if (!table->rows.empty() || !table->grouped.empty()) result.table = table;
  });
  return result;
}

}  // namespace

TuneResult tune(Communicator& c, std::span<const Problem> problems, const TuneOptions& options) {
  Communicator::Impl& impl = c.impl();
  return tuned(impl, [&](TuneResult& result) {
    std::vector<Problem> all;
    agree(impl, options, [&] {
      check_problems(impl, problems);
      std::string words;
      for (const Problem& asked : problems) {
        const Problem p = op::tuned_part(asked);
        words += fmt::format("\n{}", fmt::streamed(p));
        if (p.m != 0 && std::ranges::find(all, p) == all.end()) all.push_back(p);
      }
      return words;
    });
    tune_all(
        impl, all, options, result, [](const Problem& p) { return p; },
        [&](const TunedProblem& row) { result.rows.push_back(row); });
  });
}

void refuse_tune(Communicator& c, const std::string& reason) {
  Communicator::Impl& impl = c.impl();
  impl.call_alone("tune", [&] {
    // CPU ranks have nothing to tune: nobody waits.
    if (impl.options.device == Device::cuda)
      agree_on_calls(*impl.group, "tune", {}, op::told(reason), impl.options.timeout_s);
    raise(ErrorKind::usage, "{}", op::told(reason));
  });
}

TuneResult tune_experts(Communicator& c, const MoeLayer& layer, std::span<const std::int64_t> sizes,
                        const TuneOptions& options) {
  Communicator::Impl& impl = c.impl();
  return tuned(impl, [&](TuneResult& result) {
    agree(impl, options, [&] {
      check_experts(impl.backend->machine(), layer, sizes);
      return fmt::format("\n{}, inner {}, {} experts on this rank, {} tokens",
                         op::words_of(layer, layer.m), layer.inner, op::experts_here(layer),
                         fmt::join(sizes, ", "));
    });
    std::vector<op::AskedTiles> all;
    for (const std::int64_t m : std::set(sizes.begin(), sizes.end()))
      for (const bool first : {true, false})
        if (m != 0) all.push_back({layer, m, first});
    tune_all(
        impl, all, options, result,
        [](const op::AskedTiles& a) { return plan::expert_product(a.layer, a.m, a.first); },
        [&](const op::FoundTiles& found) { result.experts.push_back(found.row); });
  });
}

void write_tuning(const TuneResult& result, const std::string& file) {
  require(result.table != nullptr, "tuning: {}: nothing was tuned, so there is nothing to write",
          file);
  plan::TuningDraft all(file, result.table->device, result.text);
  std::error_code error;
  if (std::filesystem::exists(file, error)) {
    const std::string there = read_text("tuning", file, plan::kMostTuningBytes);
    if (!plan::TuningDraft(file, result.table->device, there).is_anew()) all.merge(file, there);
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
