// SPDX-License-Identifier: Apache-2.0
// How a collective runs: lines or chunks, how many workers, by what links and flags take.
#include <fmt/format.h>

#include <algorithm>

#include "core/check.h"
#include "plan/collectives/collective.h"
#include "plan/gemm/architecture_plans.h"

namespace tilelace::plan {

using schedule::ceil_div;
using schedule::kUnitBytes;

namespace {

/// Units of the longest parcel of any rank, as far as this rank knows.
Index longest(const CollectiveCall& c) {
  Index most = 0;
  const auto item = static_cast<Index>(row_of(c.item).bytes);
  for (const Index count : c.counts) most = std::max(most, ceil_div(count * item, kUnitBytes));
  for (const auto* side : {&c.sends, &c.takes})
    for (const Parcel& p : *side) most = std::max(most, ceil_div(p.bytes, kUnitBytes));
  return most;
}

/// A call as the model sees it.
struct Load {
  int ranks;
  Index longest;  ///< of longest()
  /// Units of the longest parcel in one shot.
  Index units(int shots) const { return shots == 2 ? ceil_div(longest, ranks) : longest; }
};

/// Bytes that leave a rank, at most.
double sent_bytes(const Load& l, int shots) {
  const double units = static_cast<double>(l.units(shots)) * kUnitBytes;
  return units * (l.ranks - 1) * shots;
}

double lines_us(const Load& l, const Hardware& h, int shots) {
  return h.call_us * shots + us_at(2 * sent_bytes(l, shots), h.store_gbps);
}
/// A flag goes out when its chunk has arrived, and is then on its way itself. `waits`: how often
/// data waits for a flag.
double flagged_us(const Load& l, const Hardware& h, int shots, int waits) {
  return (h.call_us + 2 * h.flag_us) * waits + us_at(sent_bytes(l, shots), h.store_gbps);
}
double chunks_us(const Load& l, const Hardware& h, int shots) {
  return flagged_us(l, h, shots, shots);
}
double direct_us(const Load& l, const Hardware& h, int shots) { return flagged_us(l, h, shots, 1); }

/// Places that a chunk takes on each rank.
Index places(int ranks, int shots) { return Index{ranks - 1} * shots; }

bool lines_fit(const Load& l, int shots, Index most_workers) {
  const Index units = l.units(shots);
  return units <= most_workers * kMostChunk &&
         (units + kMostChunk) * std::max<Index>(places(l.ranks, shots), 1) * kBytesOfLines <=
             kLineBytes;
}

Index up_to(Index value, Index grain) { return ceil_div(value, grain) * grain; }

/// CTAs that can stand two by two (plan/gemm/share.h), or one.
Index paired(Index ctas) { return ctas <= 1 ? 1 : up_to(ctas, 2); }

Index even(Index ctas) { return ctas <= 1 ? 1 : ctas / 2 * 2; }

/// Of a call, at most, or threads.
Index ctas_of(const CollectiveMachine& m, int of_multiprocessor, const CollectiveOptions& o) {
  const Index stand = Index{m.workers} * (m.gpu && !m.shared ? of_multiprocessor : 1);
  return std::min<Index>({stand, kMostCtas, o.workers.value_or(kMostCtas)});
}

/// CTAs for lines.
Index line_ctas(const CollectiveCall& c, const CollectiveMachine& m, const CollectiveOptions& o) {
  return even(ctas_of(m, c.ranks == 2 ? kCtas : 1, o));
}

/// A worker's part in one round, and as many workers as have one.
void spread_lines(CollectivePlan& p, Index units, Index most) {
  p.chunk = up_to(std::max(kLineThreads, ceil_div(units, most)), kLineGroup);
  p.workers = static_cast<int>(std::min(paired(ceil_div(units, p.chunk)), most));
}

/// Chunks that places have room for; few units spread over half of the CTAs, so that the kernel
/// behind this one finds places, too.
void spread_chunks(CollectivePlan& p, const CollectiveCall& c, Index units,
                   const CollectiveMachine& machine, const CollectiveOptions& o) {
  const Index each = machine.gpu ? kChunkWorkers : 1;  // workers of a CTA
  // A lane takes two units at a time in direct calls.
  const Index grain = !machine.gpu ? 1 : p.direct ? 2 * kLineGroup : kLineGroup;
  const Index full = machine.gpu ? kFullChunk : kMostChunk;
  const Index staged = machine.staged_bytes > 0 ? machine.staged_bytes : staged_bytes(c.ranks);
  const Index room =
      p.direct
          ? kMostWorkers * kMostChunk
          : staged / (kUnitBytes * schedule::kRing * std::max<Index>(places(c.ranks, p.shots), 1));
  Index most = ctas_of(machine, c.ranks == 2 || p.direct ? kCtasOfTwo : kCtas, o) * each;
  most = std::clamp<Index>(room / (grain * each) * each, each, most);
  if (machine.gpu) most = even(most / each) * each;
  const Index half = even(std::max<Index>(most / each / 2, 1)) * each;
  if (machine.gpu && !p.direct && units <= half * full) most = half;
  const bool few = machine.gpu && !p.direct && units < kFewRounds * most * full;
  Index chunk = o.chunk ? ceil_div(*o.chunk, kUnitBytes) : up_to(ceil_div(units, most), grain);
  if (!o.chunk) chunk = std::min(chunk, few ? kShortChunk : full);
  p.chunk = std::clamp<Index>(chunk, 1, std::max<Index>(1, std::min(kMostChunk, room / most)));
  const Index ctas = paired(ceil_div(ceil_div(units, p.chunk), each));
  p.workers = static_cast<int>(machine.gpu ? std::min(ctas * each, most)
                                           : std::clamp<Index>(ceil_div(units, p.chunk), 1, most));
}

int shots_of(const CollectiveRow& row, const Load& l, const CollectiveOptions& o, const Hardware& h,
             bool lines) {
  if (!row.shares) return 1;
  if (o.shots) return *o.shots;
  const auto us = lines ? lines_us : chunks_us;
  return us(l, h, 2) < us(l, h, 1) ? 2 : 1;
}

void check_options(const CollectiveCall& c, const CollectiveOptions& o) {
  const std::string_view name = row_of(c.collective).name;
  require(!o.shots || (*o.shots >= 1 && *o.shots <= (row_of(c.collective).shares ? 2 : 1)),
          "{}: shots: got {}, expected {}", name, o.shots.value_or(0),
          row_of(c.collective).shares ? "1 or 2" : "1");
  require(!o.workers || *o.workers >= 1, "{}: workers: got {}, expected at least 1", name,
          o.workers.value_or(0));
  require(!o.chunk || *o.chunk >= 1, "{}: chunk: got {} bytes, expected at least 1", name,
          o.chunk.value_or(0));
}

}  // namespace

bool may_be_lines(const CollectiveCall& c, const CollectiveMachine& machine, int shots) {
  return machine.gpu && !c.counts.empty() &&
         lines_fit({c.ranks, longest(c)}, shots, line_ctas(c, machine, {}));
}

std::optional<DirectNeeds> direct_needs(const CollectiveCall& c) {
  const CollectiveRow& row = row_of(c.collective);
  if (row.sums) return DirectNeeds{.in = true, .out = row.shares};
  // All ranks must know where each rank's part goes in the whole.
  return c.counts.empty() ? std::nullopt : std::optional(DirectNeeds{.out = true});
}

CollectivePlan plan_collective(const CollectiveCall& c, const CollectiveMachine& machine,
                               const CollectiveOptions& o, bool direct) {
  check_options(c, o);
  const CollectiveRow& row = row_of(c.collective);
  const std::string_view name = row.name;
  const Hardware& h = hardware_of(machine);
  CollectivePlan p;
  const Load load{c.ranks, longest(c)};
  direct = direct && (!row.shares || o.shots.value_or(2) == 2);
  const int line_shots = shots_of(row, load, o, h, true);
  const int chunk_shots = direct && row.shares ? 2 : shots_of(row, load, o, h, false);
  const auto chunked_us = direct ? direct_us : chunks_us;
  const bool known = !c.counts.empty();  // how long each rank's parcels are
  const Index most_ctas = line_ctas(c, machine, o);
  const bool fit = machine.gpu && known && lines_fit(load, line_shots, most_ctas);
  require(
      fit || !machine.gpu || !o.lines.value_or(false),
      "{}: option lines=1 is impossible, since {} bytes {}; option lines=0 sends chunks instead",
      name, load.units(line_shots) * kUnitBytes,
      known ? "do not fit the staging of lines" : "cannot travel as lines, which need equal parts");
  p.lines =
      fit && o.lines.value_or(lines_us(load, h, line_shots) <= chunked_us(load, h, chunk_shots));
  p.shots = p.lines ? line_shots : chunk_shots;
  p.direct = direct && !p.lines;
  const Index units = load.units(p.shots);
  if (p.lines)
    spread_lines(p, units, most_ctas);
  else
    spread_chunks(p, c, known ? units : kMostChunk * kMostWorkers, machine, o);
  p.piece = p.workers * p.chunk * (p.lines ? 1 : machine.most_rounds);
  p.pieces = std::max<Index>(1, ceil_div(units, p.piece));
  require(p.pieces == 1 || known, "{}: counts: got {} bytes for a rank, expected at most {}", name,
          units * kUnitBytes, p.piece * kUnitBytes);
  p.predicted_us = collective_us(c, p, h);
  return p;
}

double collective_us(const CollectiveCall& c, const CollectivePlan& p, const Hardware& h) {
  const auto us = p.lines ? lines_us : p.direct ? direct_us : chunks_us;
  return us({c.ranks, longest(c)}, h, p.shots);
}

std::string describe(const CollectivePlan& p) {
  return fmt::format("{}{}{}, {} workers, chunk {} bytes{}", p.lines ? "lines" : "chunks",
                     p.shots == 2 ? " in two shots" : "", p.direct ? ", direct" : "", p.workers,
                     p.chunk * kUnitBytes,
                     p.pieces == 1 ? "" : fmt::format(", {} pieces", p.pieces));
}

}  // namespace tilelace::plan
