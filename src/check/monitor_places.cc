// SPDX-License-Identifier: Apache-2.0
// The monitor's judgement of collectives: places that are written again round by round, units that
// carry epochs, input that results take the place of, the order of sums.
#include <fmt/core.h>

#include "check/monitor.h"

namespace tilelace::check {

/// Of a place, or of input in place: those who read it are few, the last one stands for all.
void Monitor::note_read(int a, const Access& access, RowRange rows, Cell& cell) {
  if (cell.reader != a && !clocks_.knows(a, cell.reader, cell.read))
    add(FindingKind::race,
        fmt::format("{}, which {} reads, too", text(a, access, rows), role(cell.reader)));
  cell.reader = a;
  cell.read = clocks_.now(a);
}

void Monitor::read_place(int a, const Access& access, RowRange rows, Cell& cell) {
  if (cell.writer < 0 || cell.round < access.round) {
    add(FindingKind::unwritten,
        fmt::format("{}, where nobody has written round {}", text(a, access, rows), access.round));
  } else if (cell.round > access.round) {
    add(FindingKind::race, fmt::format("{}, where round {} has replaced round {}",
                                       text(a, access, rows), cell.round, access.round));
  }
  read_cell(a, access, rows, cell);
  note_read(a, access, rows, cell);
}

/// Once a round, after its reader is done with the round before.
void Monitor::write_place(int a, const Access& access, RowRange rows, Cell& cell) {
  const bool again = cell.writer >= 0 && cell.round >= access.round;
  if (again) {
    add(FindingKind::moved_twice,
        fmt::format("{}, already written in round {} by {} step {}", text(a, access, rows),
                    cell.round, role(cell.writer), cell.step));
  } else if (cell.writer >= 0 && cell.reader < 0) {
    add(FindingKind::race,
        fmt::format("{}, where nobody has read round {}", text(a, access, rows), cell.round));
  } else if (!clocks_.knows(a, cell.reader, cell.read)) {
    add(FindingKind::race, fmt::format("{}, while {} may still read round {}",
                                       text(a, access, rows), role(cell.reader), cell.round));
  }
  cell = {a, clocks_.now(a), actor(a).steps, static_cast<int>(access.round), -1, 0};
}

void Monitor::read_input(int a, const Access& access, RowRange rows, Cell& cell) {
  if (cell.writer >= 0) {
    add(FindingKind::race, fmt::format("{}, the input that {} step {} has written over",
                                       text(a, access, rows), role(cell.writer), cell.step));
    return;
  }
  note_read(a, access, rows, cell);
}

/// Whoever waits for equality learns from the epoch that it asked for, and from no other.
void Monitor::on_line(int a, const Step& step) {
  const bool put = step.verb == Verb::put_line;
  const int rank = put ? step.peer : rank_of(a);
  const std::uint32_t value = epoch(actor(a).call);
  worked(static_cast<std::size_t>(step.rows.size()));
  const Release by = put ? clocks_.release(a) : Release{};
  for (Index unit = step.at; unit < step.at + step.rows.size(); ++unit) {
    Word& w = line(rank, actor(a).call, unit);
    if (!put) {
      if (w.epoch == value) clocks_.acquire(a, w.release);
      if (w.epoch != value && w.epoch_before == value) clocks_.acquire(a, w.before);
      continue;
    }
    if (w.epoch == value)
      add(FindingKind::went_back,
          fmt::format("{}: unit {} has epoch {} already", where(a), unit, value));
    else if (!clocks_.knows(a, w.release.actor, w.release.time))
      add(FindingKind::race, fmt::format("{}: unit {} not ordered after {}, who wrote it in {}",
                                         where(a), unit, role(w.release.actor), w.epoch));
    w.raise(value, by);
  }
}

/// Sums have the same bits on all ranks: terms are added from rank 0 on, each once.
void Monitor::add_in_order(int a, const Step& step) {
  Actor& self = actor(a);
  if (step.verb == Verb::reduce && step.peer != self.terms++)
    add(FindingKind::out_of_order,
        fmt::format("{} is term {} of its sum", where(a), self.terms - 1));
  if (step.verb != Verb::store) return;
  if (self.terms != setup_.ranks)
    add(FindingKind::out_of_order,
        fmt::format("{} has {} terms of {}", where(a), self.terms, setup_.ranks));
  self.terms = 0;
}

}  // namespace tilelace::check
