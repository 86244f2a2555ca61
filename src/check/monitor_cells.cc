// SPDX-License-Identifier: Apache-2.0
// The monitor's judgement of memory: slots from call to call, cells within a call.
#include <fmt/core.h>

#include "check/monitor.h"

namespace tilelace::check {

/// The slot's earlier calls must be over for whoever enters it for a newer one. Conservative: all
/// uses of the slot count, whichever bytes they touched.
void Monitor::use_slot(int a, int rank, const Access* access) {
  Actor& self = actor(a);
  Slot& s = slot(rank, self.call);
  const auto i = static_cast<std::size_t>(a);
  if (self.call > s.call) {
    worked(actors_.size());
    join(s.before, s.now);
    s.call = self.call;
  }
  const auto what = [&] {
    return access != nullptr ? text(a, *access, access->rows)
                             : fmt::format("{} uses flags@{}", where(a), rank);
  };
  if (self.call < s.call && s.checked[i] != -2 - self.call) {
    s.checked[i] = -2 - self.call;
    add(FindingKind::race,
        fmt::format("{} after call {} has begun to use that slot", what(), epoch(s.call)));
  }
  if (self.call == s.call && s.checked[i] != self.call) {
    s.checked[i] = self.call;
    worked(actors_.size());
    if (const int b = first_beyond(s.before, clocks_.known(a)); b >= 0)
      add(FindingKind::race,
          fmt::format("{}, while {} may still use that slot in an earlier call", what(), role(b)));
  }
  s.now[i] = clocks_.now(a);
}

/// Who still reads results when the rank's next call begins reads what the user may have changed.
void Monitor::return_results(int a) {
  Results& r = results_[static_cast<std::size_t>(rank_of(a))];
  if (r.begun >= actor(a).call) return;
  r.begun = actor(a).call;
  worked(actors_.size());
  if (first_beyond(r.reads, clocks_.known(a)) < 0) return;
  for (std::size_t b = 0; b < r.reads.size(); ++b) {
    if (r.reads[b] <= clocks_.known(a)[b]) continue;
    add(FindingKind::race, fmt::format("{} begins call {}, while {} may still read results",
                                       role(a), epoch(r.begun), role(static_cast<int>(b))));
  }
}

void Monitor::read_result(int a, const Access& access) {
  Results& r = results_[static_cast<std::size_t>(access.owner)];
  r.reads[static_cast<std::size_t>(a)] = clocks_.now(a);
  if (r.begun <= actor(a).call) return;
  add(FindingKind::race, fmt::format("{} after the rank has begun call {}",
                                     text(a, access, access.rows), epoch(r.begun)));
}

void Monitor::on_access(int a, const Access& access) {
  if (access.rows.size() <= 0) return;
  const CallState& state = *actor(a).state;
  const Cuts& cuts = state.plan->cuts(access.region, access.owner);
  if (!state.plan->has(access.region) || !cuts.aligned(access.rows)) {
    add(FindingKind::misplaced, text(a, access, access.rows));
    return;
  }
  if (in_slot(access.region))
    use_slot(a, access.owner, &access);
  else if (!access.write)
    read_result(a, access);
  const bool of_users = !in_slot(access.region) && (access.write || access.owner != rank_of(a));
  if (of_users && !actor(a).admitted)
    add(FindingKind::early_result, fmt::format("{} before all peers are known to be in the call",
                                               text(a, access, access.rows)));
  if (access.region == Region::in) return;  // nobody writes it
  const Index cols = state.plan->cols(access.region);
  auto& cells = actor(a).state->cells[static_cast<std::size_t>(access.owner * kRegions) +
                                      static_cast<std::size_t>(access.region)];
  const Index end = cuts.cell(access.rows.end);
  work_ += (end - cuts.cell(access.rows.begin)) * (access.col_end - access.col_begin);
  for (Index c = cuts.cell(access.rows.begin); c < end; ++c) {
    for (Index col = access.col_begin; col < access.col_end; ++col) {
      Cell& cell = cells[static_cast<std::size_t>(c * cols + col)];
      if (access.round >= 0)
        access.write ? write_place(a, access, cuts.rows(c), cell)
                     : read_place(a, access, cuts.rows(c), cell);
      else if (access.input)
        read_input(a, access, cuts.rows(c), cell);
      else
        access.write ? write_cell(a, access, cuts.rows(c), cell)
                     : read_cell(a, access, cuts.rows(c), cell);
    }
  }
}

void Monitor::read_cell(int a, const Access& access, RowRange rows, Cell& cell) {
  if (access.source >= 0 && cell.writer >= 0 && rank_of(cell.writer) != access.source)
    add(FindingKind::misplaced,
        fmt::format("{}, written by {}, instead of rank {}", text(a, access, rows),
                    role(cell.writer), access.source));
  if (cell.writer >= 0 && clocks_.knows(a, cell.writer, cell.time)) return;
  if (cell.writer < 0) {
    add(FindingKind::unwritten, fmt::format("{}, which nobody has written", text(a, access, rows)));
    return;
  }
  add(FindingKind::race, fmt::format("{}, written by {} step {}, not ordered",
                                     text(a, access, rows), role(cell.writer), cell.step));
}

/// A cell is written once in a call. A write after a read needs no rule of its own: the read came
/// first and found nothing, or the write is the second one.
void Monitor::write_cell(int a, const Access& access, RowRange rows, Cell& cell) {
  if (cell.writer >= 0) {
    const bool staging = in_slot(access.region) || access.region == Region::delivered;
    const bool ordered = clocks_.knows(a, cell.writer, cell.time);
    add(staging ? FindingKind::moved_twice : FindingKind::computed_twice,
        fmt::format("{}, already written by {} step {}{}", text(a, access, rows), role(cell.writer),
                    cell.step, ordered ? "" : ", not ordered"));
  } else if (!clocks_.knows(a, cell.reader, cell.read)) {
    add(FindingKind::race, fmt::format("{}, while {} may still read what was there",
                                       text(a, access, rows), role(cell.reader)));
  }
  cell.writer = a;
  cell.time = clocks_.now(a);
  cell.step = actor(a).steps;
}

void Monitor::check_results(const CallState& state) {
  const CallPlan& plan = *state.plan;
  for (int rank = 0; rank < setup_.ranks; ++rank) {
    for (const Region region : {Region::out, Region::delivered}) {
      if (!plan.has(region)) continue;
      const Cuts& cuts = plan.cuts(region, rank);
      const RowRange want = plan.result_rows(rank);
      const auto& cells =
          state.cells[static_cast<std::size_t>(rank * kRegions) + static_cast<std::size_t>(region)];
      worked(cells.size());
      for (Index i = 0; i < static_cast<Index>(cells.size()); ++i) {
        const RowRange rows = cuts.rows(i / plan.cols(region));
        const bool wanted = rows.begin >= want.begin && rows.end <= want.end;
        const bool written = cells[static_cast<std::size_t>(i)].writer >= 0;
        if (wanted == written) continue;
        const auto what = fmt::format("{} call {} rank {} {} rows {}..{} col {}",
                                      name_of(plan.spec()), epoch(state.call), rank,
                                      name_of(region), rows.begin, rows.end, i % plan.cols(region));
        wanted ? add(FindingKind::never_computed, what)
               : add(FindingKind::misplaced, what + " belongs to another rank");
      }
    }
  }
}

}  // namespace tilelace::check
