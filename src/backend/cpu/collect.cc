// SPDX-License-Identifier: Apache-2.0
// How a CPU rank makes a collective: staging once, then a call of the protocol for each piece.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/cpu/engine.h"
#include "core/check.h"
#include "core/points.h"

namespace tilelace::cpu {
namespace {

std::vector<Index> elements_of(const std::vector<plan::Parcel>& parcels, Item item) {
  std::vector<Index> counts;
  counts.reserve(parcels.size());
  for (const auto& p : parcels) counts.push_back(p.bytes / static_cast<Index>(row_of(item).bytes));
  return counts;
}

std::string card_of(const plan::CollectiveCall& c, const plan::CollectivePlan& p) {
  const std::string counts =
      c.counts.empty()
          ? fmt::format("counts {}, takes {}", fmt::join(elements_of(c.sends, c.item), ","),
                        fmt::join(elements_of(c.takes, c.item), ","))
          : fmt::format("counts {}", fmt::join(c.counts, ","));
  return fmt::format("{} of {}{}{}, {}; {}", row_of(c.collective).name, row_of(c.item).name,
                     row_of(c.collective).sums ? " " : "",
                     row_of(c.collective).sums ? name_of(c.reduction) : "", counts,
                     plan::describe(p));
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
  points::pass("call.enter", group_.rank());
  if (!collectives_.ready()) stage_collectives(row_of(collective).name, card_of(call, plan));
  for (Index piece = 0; piece < plan.pieces; ++piece) collect_piece(call, plan, piece, args);
  points::pass("call.leave", group_.rank());
}

void Engine::collect_piece(const plan::CollectiveCall& c, const plan::CollectivePlan& p,
                           Index piece, const CollectiveArgs& args) {
  const auto placed = plan::place_exchange<comm::kMaxRanks>(c, p, piece);
  Problem nothing;
  nothing.ranks = c.ranks;
  Call call;
  call.name = row_of(c.collective).name;
  call.problem = &nothing;
  begin(call, card_of(c, p), plan::collective_hash(c, p));
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
    schedule::run_exchange(placed.schedule, index, verbs);
  });
  if (points::poison_slots)
    collectives_.poison(c.rank, call.epoch, placed.schedule.num_units() * schedule::kUnitBytes);
}

std::string Engine::describe(Collective collective, const CollectiveArgs& args,
                             const CollectiveOptions& options) const {
  const auto call = plan::check_collective(collective, args, group_.rank(), group_.ranks());
  return plan::describe(plan::plan_collective(call, collectives_.machine(), options, false));
}

}  // namespace tilelace::cpu
