// SPDX-License-Identifier: Apache-2.0
// How a CPU rank makes a collective: staging once, then a call of the protocol for each piece.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/cpu/engine.h"
#include "backend/cpu/row_norm.h"
#include "core/check.h"
#include "core/points.h"
#include "plan/collectives/norm.h"

namespace tilelace::cpu {
namespace {

std::vector<Index> elements_of(const std::vector<plan::Parcel>& parcels, Item item) {
  std::vector<Index> counts;
  counts.reserve(parcels.size());
  for (const auto& p : parcels) counts.push_back(p.bytes / static_cast<Index>(row_of(item).bytes));
  return counts;
}

std::string words_of(const plan::CollectiveCall& c) {
  const std::string counts =
      c.counts.empty()
          ? fmt::format("counts {}, takes {}", fmt::join(elements_of(c.sends, c.item), ","),
                        fmt::join(elements_of(c.takes, c.item), ","))
          : fmt::format("counts {}", fmt::join(c.counts, ","));
  return fmt::format("{} of {}{}{}, {}", row_of(c.collective).name, row_of(c.item).name,
                     row_of(c.collective).sums ? " " : "",
                     row_of(c.collective).sums ? name_of(c.reduction) : "", counts);
}

}  // namespace

void Engine::stage_collectives(std::string_view name, std::string_view card) {
  Problem nothing;
  nothing.ranks = group_.ranks();
  Call call;
  call.name = name;
  call.problem = &nothing;
  begin(call, card, kPreparingCollectives);
  ++unwatched_;
  tell_peers(call);
  await_headers(call);
  try {
    call.check_agreement();
  } catch (const Disagreement& d) {
    settle(call, d.peer);
  }
  collectives_.allocate(group_, epoch_, options_.timeout_s);
}

void Engine::prepare_collectives(std::string_view refusal) {
  if (collectives_.ready()) return;
  if (!refusal.empty()) return refuse(refusal, nullptr);
  stage_collectives("prepare_collectives", "prepare_collectives");
}

void Engine::collect(Collective collective, const CollectiveArgs& args,
                     const CollectiveOptions& options) {
  plan::CollectiveCall call;
  plan::CollectivePlan plan;
  try {
    call = plan::check_collective(collective, args, group_.rank(), group_.ranks());
    plan = plan::plan_collective(call, collectives_.machine(), options, false);
  } catch (const Error& e) {
    refuse(e.what(), nullptr);
    throw;
  }
  collect(call, plan, {row_of(collective).name, words_of(call)}, args);
}

void Engine::collect_within(const Within& within, Collective collective,
                            const CollectiveArgs& args) {
  auto call = plan::check_collective(collective, args, group_.rank(), group_.ranks());
  const auto plan = plan::plan_collective(call, collectives_.machine(), {}, false);
  std::string words = within.words;
  if (within.word != nullptr)
    words += fmt::format(", routing {:08x}", static_cast<std::uint32_t>(*within.word));
  call.meaning = plan::meaning_of(words);
  collect(call, plan, {within.name, words + "; " + words_of(call)}, args);
}

void Engine::collect(const plan::CollectiveCall& call, const plan::CollectivePlan& plan,
                     const CollectiveWords& words, const CollectiveArgs& args) {
  points::pass("call.enter", group_.rank());
  if (!collectives_.ready())
    stage_collectives(words.name, fmt::format("{}; {}", words.call, plan::describe(plan)));
  for (Index piece = 0; piece < plan.pieces; ++piece) collect_piece(call, plan, piece, words, args);
  points::pass("call.leave", group_.rank());
}

void Engine::collect_piece(const plan::CollectiveCall& c, const plan::CollectivePlan& p,
                           Index piece, const CollectiveWords& words, const CollectiveArgs& args) {
  const auto placed = plan::place_exchange<comm::kMaxRanks>(c, p, piece);
  Problem nothing;
  nothing.ranks = c.ranks;
  Call call;
  call.name = words.name;
  call.problem = &nothing;
  begin(call, fmt::format("{}; {}", words.call, plan::describe(p)), plan::collective_hash(c, p));
  ++unwatched_;
  call.slot = collectives_.slot(call.epoch);
  for (int q = 0; q < c.ranks && c.counts.empty(); ++q) {
    call.hashes_to.push_back(plan::hash_between(c, call.hash, c.rank, q));
    call.hashes_from.push_back(plan::hash_between(c, call.hash, q, c.rank));
  }
  points::pass("copy.before_header", group_.rank());
  tell_peers(call);
  on_actors(call, [&](int index) {
    if (index >= p.workers) return;
    CollectiveVerbs verbs(call, index, placed, args);
    schedule::run_staged_exchange(placed.schedule, index, verbs);
  });
  if (points::poison_slots)
    collectives_.poison(c.rank, call.epoch, placed.schedule.num_units() * schedule::kUnitBytes);
}

std::string Engine::describe(Collective collective, const CollectiveArgs& args,
                             const CollectiveOptions& options) const {
  const auto call = plan::check_collective(collective, args, group_.rank(), group_.ranks());
  return plan::describe(plan::plan_collective(call, collectives_.machine(), options, false));
}

void Engine::all_reduce_norm(const AllReduceNormArgs& args, const CollectiveOptions& options) {
  plan::NormCall call;
  plan::CollectivePlan plan;
  try {
    call = plan::check_norm(args, group_.rank(), group_.ranks());
    plan = plan::plan_norm(call, collectives_.machine(), options);
  } catch (const Error& e) {
    refuse(e.what(), nullptr);
    throw;
  }
  // Not at once into the residual, which is still to be added.
  std::vector<std::byte> sums(static_cast<std::size_t>(plan::bytes_of(call).rows));
  CollectiveArgs sum{args.x, sums.data(), args.item};
  sum.counts = call.sum.counts;
  collect(call.sum, plan, {plan::kNormName, plan::describe(call)}, sum);
  norm_rows(args, sums.data());
}

std::string Engine::describe(const AllReduceNormArgs& args,
                             const CollectiveOptions& options) const {
  const auto call = plan::check_norm(args, group_.rank(), group_.ranks());
  return plan::describe(plan::plan_norm(call, collectives_.machine(), options));
}

}  // namespace tilelace::cpu
