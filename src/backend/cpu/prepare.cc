// SPDX-License-Identifier: Apache-2.0
// What a CPU rank makes before its first call: slots, packed weights, scratch.
#include <fmt/core.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <utility>

#include "backend/cpu/engine.h"
#include "backend/prepared_calls.h"
#include "comm/std_atomics.h"
#include "core/check.h"
#include "core/points.h"
#include "plan/cpu/cpu_candidates.h"
#include "tilelace/op_table.h"

namespace tilelace::cpu {
namespace {

/// The plans that calls of this problem may get: m is at most the prepared one, and which of the
/// candidates wins depends on it.
template <class Visit>
void for_each_size(const PreparedCall& call, const Machine& machine, Visit visit) {
  Problem p = call.problem;
  for (std::int64_t m = call.problem.m;; m /= 2) {
    if (m != call.problem.m && !p.rows.empty()) break;
    p.m = m;
    for (const Plan& plan : plan::candidates(p, machine, call.options)) visit(p, plan);
    if (m == 0) break;
  }
}

}  // namespace

void Engine::agree_on(std::span<const PreparedCall> calls, Before before,
                      std::string_view refusal) {
  std::string mine;
  for (const auto& c : calls) {
    mine += fmt::format("{}; {}\n", fmt::streamed(c.problem),
                        fmt::streamed(make_plan(c.problem, machine_, c.options)));
  }
  mine += fmt::format("{}{}", before == Before::stays ? "more; " : "", fmt::streamed(machine_));
  agree_on_calls(group_, "prepare", mine, refusal, options_.timeout_s);
}

/// What calls of these problems take at most, beside what those before them take.
Engine::Room Engine::room_of(std::span<const PreparedCall> calls, const Room& before) const {
  Room room = before;
  for (const auto& c : calls) {
    points::pass(points::kPrepared, group_.rank());
    for_each_size(c, machine_, [&](const Problem& p, const Plan& plan) {
      const auto layout = plan::slot_layout(p, plan);
      room.flags = std::max(room.flags, layout.flag_bytes());
      room.data = std::max(room.data, layout.data_bytes);
      room.tile_m = std::max(room.tile_m, plan.tile_m);
      room.tile_n = std::max(room.tile_n, plan.tile_n);
      if (plan.straddle) {
        room.parked = std::max(room.parked, 2 * plan::column_tiles(p, plan.tile_n));
      }
    });
  }
  return room;
}

void Engine::allocate_slots(const Room& room) {
  // Between the sizes that were looked at, a shard may have up to twice as many tiles.
  const std::int64_t flags = 2 * room.flags;
  const std::int64_t slot_bytes = (flags + room.data + 4095) / 4096 * 4096;
  if (slots_ != nullptr && room.fits(room_)) return;  // on every rank
  // Without memory for the new slots there are none: calls then ask for a prepare.
  slots_.reset();
  auto slots = group_.allocate(2 * static_cast<std::size_t>(slot_bytes), options_.timeout_s);
  for (int slot = 0; slot < 2; ++slot) {
    auto* words = reinterpret_cast<comm::Flag*>(slots->peer(group_.rank()) + slot * slot_bytes);
    std::fill(words, words + flags / 4, epoch_);
  }
  group_.all_gather("", options_.timeout_s);  // no flag may arrive before this
  slots_ = std::move(slots);
  slot_bytes_ = slot_bytes;
  flag_bytes_ = flags;
}

void Engine::pack(const PreparedCall& call) {
  const int width = make_plan(call.problem, machine_, call.options).tile_n;
  for (const auto& w : call.weights) {
    const bool known = std::any_of(packed_.begin(), packed_.end(), [&](const Packed& p) {
      return p.source == w && p.weight.tile_n() == width;
    });
    if (!known) packed_.push_back({w, PackedWeight(w, width)});
  }
}

void Engine::make_workers(const Room& room) {
  workers_.clear();
  for (int i = 0; i < machine_.workers; ++i) {
    auto& state = workers_.emplace_back(room.tile_m, room.tile_n);
    for (const auto& p : packed_) state.gemm.prepare(p.weight);
    state.parked.resize(room.parked);
    for (auto& tile : state.parked) tile.reserve(state.accumulator.size());
  }
}

/// A rank that is in a call instead shall learn of it, and this one of the call: prepare takes a
/// call's number and headers. (The checked mode counts calls by these numbers, so not there.)
/// False: this rank refuses, and its peers, in a call, have been told.
bool Engine::announce_prepare(std::span<const PreparedCall> calls, std::string_view refusal) {
  if (checked_) return true;
  std::string card = fmt::format("prepare of {} problems: ", calls.size());
  for (const auto& c : calls) card += fmt::format("{}; ", fmt::streamed(c.problem));
  if (!refusal.empty()) card = fmt::format("prepare, refused: {}", refusal);
  Problem nothing;
  nothing.ranks = group_.ranks();
  Call call;
  call.name = "prepare";
  call.problem = &nothing;
  begin(call, card, kPreparing);
  tell_peers(call);
  await_headers(call);
  try {
    call.check_agreement();
  } catch (const Disagreement& d) {
    if (!refusal.empty()) return false;
    settle(call, d.peer);
  }
  return true;
}

void Engine::prepare(std::span<const PreparedCall> calls, Before before, std::string_view refusal) {
  ensure_control();
  if (!announce_prepare(calls, refusal)) return;
  agree_on(calls, before, refusal);
  if (!refusal.empty()) return;
  const bool anew = before == Before::goes;
  const Room room = room_of(calls, anew ? Room{} : room_);
  try {
    const std::size_t known = anew ? 0 : packed_.size();
    if (anew) packed_.clear();
    for (const auto& c : calls) pack(c);
    if (anew || packed_.size() > known || !room.workers_fit(room_)) make_workers(room);
  } catch (const std::exception& e) {
    raise(ErrorKind::system, "prepare: rank {}: {}", group_.rank(), e.what());
  }
  if (anew) slots_.reset();
  try {
    allocate_slots(room);
  } catch (const Error& e) {  // on every rank
    if (!anew && e.kind() == ErrorKind::usage) allocate_slots(room_);
    throw;
  }
  room_ = room;
}

WeightColumns Engine::check_call(const Call& call, Part part) const {
  require(slots_ != nullptr, "{}: called before prepare: call prepare first", call.name);
  if (part != Part::gemm) check_staging(*call.problem, call.layout);
  // A gather alone has no tiles, and no say in how large they are.
  if (part == Part::collective && row_of(call.problem->op).gathers) return {};
  check_tile(*call.problem, *call.plan);
  if (part == Part::collective) return {};
  return columns_of(*call.problem, *call.plan, *call.operands);
}

WeightColumns Engine::columns_of(const Problem& problem, const Plan& plan,
                                 const Operands& operands) const {
  WeightColumns columns;
  columns.paired = problem.activation == Activation::swiglu;
  for (std::size_t i = 0; i < operands.weights.size(); ++i) {
    const auto found = std::find_if(packed_.begin(), packed_.end(), [&](const Packed& p) {
      return p.source == operands.weights[i] && p.weight.tile_n() == plan.tile_n;
    });
    if (found != packed_.end()) {
      columns.weights.push_back(&found->weight);
      continue;
    }
    // So few rows read a panel once, or once a shard, which costs less than packing it.
    columns.own.push_back(std::make_unique<PackedWeight>(
        operands.weights[i], plan.tile_n,
        problem.m <= plan.tile_m ? Panels::in_place : Panels::packed));
    columns.weights.push_back(columns.own.back().get());
  }
  return columns;
}

void Engine::check_staging(const Problem& problem, const plan::SlotLayout& layout) const {
  require(layout.flag_bytes() <= flag_bytes_ && layout.data_bytes <= slot_bytes_ - flag_bytes_,
          "{}: staging: the call needs {} bytes of flags and {} of data ({}), but {} and {} are "
          "prepared: call prepare with a larger m",
          name_of(problem.op), layout.flag_bytes(), layout.data_bytes, layout.formula, flag_bytes_,
          slot_bytes_ - flag_bytes_);
}

void Engine::check_tile(const Problem& problem, const Plan& plan) const {
  const auto op = name_of(problem.op);
  const auto tile = static_cast<std::size_t>(plan.tile_m) * plan.tile_n;
  require(plan.tile_m <= workers_[0].max_rows && tile <= workers_[0].accumulator.size(),
          "{}: tile {}x{} was not prepared: call prepare with the plan's options", op, plan.tile_m,
          plan.tile_n);
  const Index parked = plan.straddle ? 2 * plan::column_tiles(problem, plan.tile_n) : 0;
  require(parked <= static_cast<Index>(workers_[0].parked.size()),
          "{}: tiles that straddle shards were not prepared: call prepare with the plan's options",
          op);
}

}  // namespace tilelace::cpu
