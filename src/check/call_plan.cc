// SPDX-License-Identifier: Apache-2.0
// Every rank's schedule of a call, and its memory cut into cells.
#include <algorithm>
#include <array>

#include "check/call.h"
#include "core/check.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace::check {

using schedule::AgGemm;
using schedule::Bands;
using schedule::Chunks;
using schedule::GemmReduce;

std::string_view name_of(Region region) {
  return std::array<std::string_view, kRegions>{"gathered", "outgoing", "incoming",  "result",
                                                "lines",    "out",      "delivered", "in"}
      .at(static_cast<std::size_t>(region));
}

Cuts::Cuts(Index rows) : cell_(static_cast<std::size_t>(rows) + 1, 0) { mark({0, rows}); }

void Cuts::mark(RowRange rows) {
  require(rows.begin >= 0 && rows.end <= num_rows(),
          "check: rows {}..{} are outside a region of {} rows", rows.begin, rows.end, num_rows());
  cell_[static_cast<std::size_t>(rows.begin)] = 1;
  cell_[static_cast<std::size_t>(rows.end)] = 1;
}

void Cuts::close() {
  std::int32_t next = 0;
  for (std::size_t row = 0; row < cell_.size(); ++row) {
    const bool begins = cell_[row] != 0;
    cell_[row] = next;
    if (!begins) continue;
    begins_.push_back(static_cast<Index>(row));
    ++next;
  }
}

bool Cuts::aligned(RowRange rows) const {
  if (rows.begin < 0 || rows.end > num_rows()) return false;
  const auto begins_at = [&](Index row) {
    return begins_[static_cast<std::size_t>(cell(row))] == row;
  };
  return begins_at(rows.begin) && begins_at(rows.end);
}

RowRange Cuts::rows(Index cell) const {
  const auto c = static_cast<std::size_t>(cell);
  return {begins_[c], begins_[c + 1]};
}

namespace {

/// Calls f for every band and chunk of a shard.
template <class F>
void each_part(const Bands& bands, const Chunks& chunks, F f) {
  if (bands.shard.size() == 0) return;
  for (Index j = 0; j < bands.count(); ++j) f(bands.rows(j));
  for (Index c = 0; c < chunks.count(); ++c) f(chunks.rows(c));
}

}  // namespace

CallPlan::CallPlan(const CallSpec& spec, int ranks, int workers)
    : spec_(spec), ranks_(ranks), workers_(workers), rows_(std::max<Index>(spec.m, 0)) {
  const auto reason = legal(spec, ranks);
  require(!reason, "check: {} (got {} over {} ranks)", reason.value_or(""), to_string(spec), ranks);
  require(workers >= 1, "check: workers: got {}, expected at least 1", workers);
  if (!spec.rows.empty()) {
    borders_.assign(1, 0);
    for (const Index rows : spec.rows) borders_.push_back(borders_.back() + rows);
  }
  if (spec.exchange)
    cut_exchange();
  else if (row_of(spec.transport).needs_multicast())
    cut_switched();
  else if (spec.lag > 0)
    cut_shared();
  else if (spec.unfused)
    spec.copied ? cut_copied() : cut_sums();
  else
    row_of(spec.op).gathers ? cut_gather() : cut_reduce();
  rows_.close();
  for (auto* all : {&incoming_, &in_, &out_})
    for (Cuts& cuts : *all) cuts.close();
}

schedule::RowSplit CallPlan::split() const {
  return {spec_.m, ranks_, borders_.empty() ? nullptr : borders_.data()};
}

template <class Schedule>
Schedule CallPlan::common() const {
  Schedule s;
  s.route = {spec_.route, ranks_, spec_.route == RouteKind::two_level ? spec_.local : 1};
  s.split = split();
  s.workers = workers_;
  s.tile_m = spec_.tile_m;
  s.cols = spec_.cols;
  s.chunk_rows = spec_.chunk_rows;
  s.raster_group = spec_.raster_group;
  s.transport = spec_.transport;
  s.straddle = spec_.straddle;
  return s;
}

schedule::GemmOrder CallPlan::walk() const {
  schedule::GemmOrder order;
  order.group = spec_.raster_group;
  order.along_cols = spec_.walk.along_cols;
  order.wide = spec_.walk.wide;
  order.deep = spec_.walk.deep;
  return order;
}

void CallPlan::cut_gather() {
  auto s = common<AgGemm>();
  s.deliver = spec_.deliver;
  num_flags_ = s.num_flags();
  const WalkSpec& w = spec_.walk;
  schedule::GatherWalking how{walk(), w.apart, {}, w.whole, w.across};
  std::copy(w.joins.begin(), w.joins.end(), std::next(how.joins.after));
  for (s.rank = 0; s.rank < ranks_; ++s.rank) {
    if (few())
      gather_.push_back(schedule::make_gather_tiles<schedule::kMaxGpuRanks>(s, how));
    else
      many_gather_.push_back(schedule::make_gather_tiles<kMaxCheckedRanks>(s, how));
  }
  for (int q = 0; q < ranks_; ++q)
    each_part(s.bands(q), s.chunks(q), [&](RowRange rows) { rows_.mark(rows); });
  for (Index row = 0; row < spec_.m && w.whole; row += spec_.tile_m)
    rows_.mark({row, std::min(row + spec_.tile_m, spec_.m)});
}

/// Of each rank, and what comes in there: of numbered partials each is a row.
void CallPlan::make_reduce(GemmReduce s) {
  for (s.rank = 0; s.rank < ranks_; ++s.rank) {
    if (spec_.walk.pairs)
      pairs_.push_back(schedule::make_pair_tiles(s, walk()));
    else if (few())
      reduce_.push_back(
          schedule::make_reduce_tiles<schedule::kMaxGpuRanks>(s, walk(), spec_.walk.together));
    else
      many_reduce_.push_back(schedule::make_reduce_tiles<kMaxCheckedRanks>(s, walk()));
  }
  num_flags_ = s.num_flags();
  numbered_ = s.numbered();
  if (numbered_)
    num_flags_ = ranks_ * visit(0, [](const auto& tiles) -> Index {
                   if constexpr (requires { tiles.of_source(); }) return tiles.of_source();
                   return 0;
                 });
  for (s.rank = 0; s.rank < ranks_; ++s.rank) {
    Cuts& incoming = incoming_.emplace_back(numbered_ ? num_flags_ : s.incoming_rows());
    for (Index i = 0; i < num_flags_ && numbered_; ++i) incoming.mark({i, i + 1});
  }
}

void CallPlan::cut_reduce() {
  auto s = common<GemmReduce>();
  s.blocks = spec_.blocks;
  s.block_grain = spec_.block_grain;
  s.all_reduce = row_of(spec_.op).shares;
  make_reduce(s);
  for (int b = 0; b < s.blocks; ++b) {
    for (int q = 0; q < ranks_; ++q) {
      each_part(s.bands(b, q), s.chunks(b, q), [&](RowRange rows) {
        rows_.mark(rows);
        if (numbered_) return;
        for (int p = 0; p < ranks_; ++p) {
          if (p == q) continue;
          const int parent = s.route.parent(q, p);
          const Step part{Verb::partial, -1, q, b, -1, rows, -1};
          incoming_[static_cast<std::size_t>(parent)].mark(incoming_rows(s, parent, p, part));
        }
      });
    }
  }
}

void CallPlan::cut_sums() {
  using schedule::SumForm;
  const bool shared = row_of(spec_.transport).by_workers();
  const SumForm form = row_of(spec_.op).scatters() ? SumForm::own_rows
                       : shared                    ? SumForm::shared_rows
                                                   : SumForm::all_rows;
  for (int rank = 0; rank < ranks_; ++rank) {
    sums_.push_back(schedule::make_reduce_rows(split(), rank, form, 1, spec_.chunk_rows, workers_));
    const schedule::ReduceRows& s = sums_.back();
    for (int q = 0; q < ranks_; ++q)
      for (Index c = 0; c < s.chunks[q]; ++c) rows_.mark(s.chunk(q, c).units);
    incoming_.emplace_back(0);
  }
  num_flags_ = sums_.front().num_flags() + 1;
}

void CallPlan::cut_copied() {
  for (int rank = 0; rank < ranks_; ++rank) {
    const CopiedRows& s = copied_.emplace_back(CopiedRows{schedule::make_reduce_rows(
        split(), rank, schedule::SumForm::own_rows, 1, spec_.chunk_rows, workers_)});
    Cuts& incoming = incoming_.emplace_back((ranks_ - 1) * s.rows[rank].size());
    for (int q = 0; q < ranks_; ++q)
      for (Index c = 0; c < s.chunks[q]; ++c) {
        const RowRange units = s.chunk(q, c).units;
        rows_.mark(units);
        for (int p = 0; p < ranks_; ++p)
          if (q == rank && p != q) incoming.mark(copied_rows(s, rank, p, units));
      }
  }
  num_flags_ = copied_.front().num_flags() + 1;
}

void CallPlan::cut_switched() {
  for (int rank = 0; rank < ranks_; ++rank) {
    schedule::GemmOrder order;
    order.rows = static_cast<int>(schedule::ceil_div(spec_.m, spec_.tile_m));
    order.cols = static_cast<int>(spec_.cols);
    order.group = spec_.raster_group;
    switched_.push_back(schedule::make_tile_sums(split(), rank, spec_.tile_m, order,
                                                 std::max(1, workers_ / kRolesOfSwitched)));
    switched_.back().actors = workers_;
    switched_.back().direct = spec_.direct;
    switched_.back().one_shot = spec_.shots == 1;
    incoming_.emplace_back(0);
  }
  const schedule::TileSums& s = switched_.front();
  for (int row = 0; row < s.work.order.rows; ++row)
    for (int q = 0; q < ranks_; ++q) rows_.mark(s.share({row, 0}, q));
  num_flags_ = Index{schedule::num_counts(s.tiles())} * ranks_;
}

void CallPlan::cut_shared() {
  const Index tiles =
      schedule::ceil_div(schedule::ceil_div(split().max_rows(), spec_.blocks), spec_.tile_m);
  for (int rank = 0; rank < ranks_; ++rank) {
    const schedule::Route route{spec_.route, ranks_, ranks_};
    const auto cols = static_cast<int>(spec_.cols);
    schedule::ShareOrder order =
        spec_.by_columns
            ? schedule::make_share_order_of_columns(spec_.m, route, rank, ranks_, cols,
                                                    spec_.tile_m, spec_.lag)
            : schedule::make_share_order(split(), route, rank, cols, spec_.tile_m,
                                         std::max<Index>(tiles, 1) * spec_.tile_m, spec_.lag);
    shared_.push_back(schedule::make_shared_tiles(split(), order, spec_.tile_m, workers_));
    const RowRange own = shared_.back().shard(rank);
    Cuts& incoming = incoming_.emplace_back((ranks_ - 1) * own.size());
    for (Index row = own.begin; row < own.end; row += spec_.tile_m) {
      const RowRange rows{row, std::min(row + spec_.tile_m, own.end)};
      rows_.mark(rows);
      for (int p = 0; p < ranks_; ++p)
        if (p != rank) incoming.mark(shared_rows(shared_.back(), rank, p, rows));
    }
  }
  num_flags_ = shared_.front().num_flags();
}

/// Whole places, as far as parcels fill them.
void CallPlan::cut_exchange() {
  for (int rank = 0; rank < ranks_; ++rank) {
    const ExchangeCall& c = exchanges_.emplace_back(make_exchange(*spec_.exchange, rank, ranks_));
    const auto& s = c.schedule;
    Cuts& in = in_.emplace_back(c.in_units);
    Cuts& out = out_.emplace_back(c.out_units);
    Cuts& places = incoming_.emplace_back(s.num_units());
    const auto parts = [&](Index units, auto f) {
      for (int w = 0; w < s.workers; ++w)
        for (Index r = 0; r < s.rounds_of(units); ++r)
          if (const RowRange part = s.part({w, r}, units); part.size() > 0) f({w, r}, part);
    };
    using Round = schedule::ExchangeRound;
    for (int q = 0; q < ranks_; ++q) {
      const auto at = static_cast<std::size_t>(q);
      parts(s.sends[q], [&](Round, RowRange p) { in.mark(from(c.in_at[at] + p.begin, p)); });
      parts(c.result_units(q),
            [&](Round, RowRange p) { out.mark(from(c.out_at[at] + p.begin, p)); });
      if (q == rank || s.direct) continue;
      parts(s.takes[q],
            [&](Round r, RowRange p) { places.mark(from(s.term_place(rank, q, r), p)); });
      parts(s.owned[q],
            [&](Round r, RowRange p) { places.mark(from(s.sum_place(rank, q, r), p)); });
    }
  }
  num_flags_ = spec_.exchange->lines ? 0 : exchanges_.front().schedule.num_flags();
}

Index CallPlan::num_lines() const {
  const bool lines = spec_.exchange && spec_.exchange->lines;
  return lines ? exchanges_.front().schedule.num_units() : 0;
}

FlagName CallPlan::flag(int rank, Index flag) const {
  return visit_any(rank, [&](const auto& s) { return flag_name(s, flag); });
}

RowRange CallPlan::result_rows(int rank) const {
  if (spec_.exchange) return {0, exchange(rank).out_units};
  return row_of(spec_.op).scatters() ? shard(rank) : RowRange{0, spec_.m};
}

bool CallPlan::has(Region region) const {
  if (spec_.exchange) {
    const bool lines = spec_.exchange->lines;
    if (region == Region::incoming) return !lines && !spec_.exchange->direct;
    return region == Region::in || region == Region::out || (lines && region == Region::lines);
  }
  switch (region) {
    case Region::lines:
    case Region::in: return false;
    case Region::out: return true;
    case Region::gathered: return row_of(spec_.op).gathers;
    case Region::delivered: return row_of(spec_.op).gathers && spec_.deliver;
    case Region::result: return row_of(spec_.op).shares;
    case Region::outgoing: return row_of(spec_.op).sums;
    case Region::incoming:
      return row_of(spec_.op).sums && !row_of(spec_.transport).needs_multicast() &&
             (!spec_.unfused || spec_.copied);
  }
  return false;
}

}  // namespace tilelace::check
