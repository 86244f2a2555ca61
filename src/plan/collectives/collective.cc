// SPDX-License-Identifier: Apache-2.0
#include "plan/collectives/collective.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/check.h"
#include "plan/base/hardware.h"
#include "plan/base/problem.h"
#include "plan/gemm/architecture_plans.h"

namespace tilelace {

std::string_view name_of(Reduction r) {
  return std::array<std::string_view, 3>{"sum", "avg", "max"}.at(static_cast<std::size_t>(r));
}

namespace plan {
namespace {

using schedule::ceil_div;
using schedule::kUnitBytes;

/// One entry for all ranks, or one each.
std::vector<Index> by_rank(std::string_view name, std::string_view what,
                           std::span<const std::int64_t> counts, int ranks) {
  require(counts.size() == 1 || counts.size() == static_cast<std::size_t>(ranks),
          "{}: {}: got {} entries, expected one, or one a rank ({})", name, what, counts.size(),
          ranks);
  std::vector<Index> all(static_cast<std::size_t>(ranks), counts.front());
  if (counts.size() > 1) all.assign(counts.begin(), counts.end());
  Index total = 0;
  for (const Index count : all) {
    require(count >= 0 && count <= kMaxExtent - total,
            "{}: {}: got an entry {}, expected 0 to {} elements together", name, what, count,
            kMaxExtent);
    total += count;
  }
  return all;
}

/// One after the other.
std::vector<Parcel> in_turn(const std::vector<Index>& counts, Index bytes) {
  std::vector<Parcel> parcels;
  Index at = 0;
  for (const Index count : counts) {
    parcels.push_back({at, count * bytes});
    at += count * bytes;
  }
  return parcels;
}

Index end_of(const std::vector<Parcel>& parcels) {
  Index end = 0;
  for (const Parcel& p : parcels) end = std::max(end, p.at + p.bytes);
  return end;
}

void check_known(std::string_view name, const CollectiveArgs& args, const CollectiveRow& row) {
  require(static_cast<std::size_t>(args.item) < kItems.size(),
          "{}: item: got an unknown one {}, expected bf16, fp16, fp32, i32, i64 or u8", name,
          static_cast<int>(args.item));
  require(args.reduction <= Reduction::max,
          "{}: reduction: got an unknown one {}, expected sum, avg or max", name,
          static_cast<int>(args.reduction));
  require(row.sums || args.reduction == Reduction::sum,
          "{}: reduction: got {}, expected none (nothing is added up)", name,
          name_of(args.reduction));
  require(args.reduction != Reduction::avg || row_of(args.item).floats,
          "{}: reduction: got avg of {}, expected bf16, fp16 or fp32", name,
          row_of(args.item).name);
}

/// Where a tensor may lie.
void check_memory(std::string_view name, std::string_view what, const void* data, Index bytes,
                  std::size_t item) {
  require(bytes == 0 || data != nullptr, "{}: {}: got null data, expected {} bytes", name, what,
          bytes);
  require(reinterpret_cast<std::uintptr_t>(data) % item == 0,
          "{}: {}: got data {} bytes off, expected it aligned to its elements of {} bytes", name,
          what, reinterpret_cast<std::uintptr_t>(data) % item, item);
}

/// In place, or apart.
void check_apart(std::string_view name, const CollectiveCall& c, const CollectiveArgs& args) {
  const auto in = reinterpret_cast<std::uintptr_t>(args.in);
  const auto out = reinterpret_cast<std::uintptr_t>(args.out);
  const auto in_bytes = static_cast<std::uintptr_t>(end_of(c.sends));
  const auto out_bytes = static_cast<std::uintptr_t>(end_of(c.takes));
  if (in_bytes == 0 || out_bytes == 0 || in + in_bytes <= out || out + out_bytes <= in) return;
  const auto own = static_cast<std::size_t>(c.rank);
  const bool in_place = c.collective != Collective::all_to_all &&
                        in + static_cast<std::uintptr_t>(c.sends[own].at) ==
                            out + static_cast<std::uintptr_t>(c.takes[own].at);
  require(in_place,
          "{}: in and out: got memory that overlaps, expected two tensors, or one in its place in "
          "the other",
          name);
}

}  // namespace

CollectiveCall check_collective(Collective collective, const CollectiveArgs& args, int rank,
                                int ranks) {
  require(static_cast<std::size_t>(collective) < kCollectives.size(),
          "collective: got an unknown one {}, expected all_reduce, all_gather, reduce_scatter or "
          "all_to_all",
          static_cast<int>(collective));
  const CollectiveRow& row = row_of(collective);
  check_known(row.name, args, row);
  const auto item = static_cast<Index>(row_of(args.item).bytes);
  CollectiveCall c{collective, args.reduction, args.item, rank, ranks, {}, {}, {}};
  const auto own = static_cast<std::size_t>(rank);
  const auto all = static_cast<std::size_t>(ranks);
  require(collective == Collective::all_to_all || args.takes.empty(),
          "{}: takes: got {} entries, expected none", row.name, args.takes.size());
  require(collective != Collective::all_reduce || args.counts.size() == 1,
          "{}: counts: got {} entries, expected one", row.name, args.counts.size());
  const std::vector<Index> counts =
      by_rank(row.name, "counts", args.counts, collective == Collective::all_reduce ? 1 : ranks);
  const std::vector<Parcel> whole = in_turn(counts, item);
  switch (collective) {
    case Collective::all_reduce:
      c.sends = c.takes = std::vector<Parcel>(all, Parcel{0, counts.front() * item});
      break;
    case Collective::all_gather:
      c.sends.assign(all, Parcel{0, whole[own].bytes});
      c.takes = whole;
      break;
    case Collective::reduce_scatter:
      c.sends = whole;
      c.takes.assign(all, Parcel{0, whole[own].bytes});
      break;
    case Collective::all_to_all:
      c.sends = whole;
      c.takes = in_turn(by_rank(row.name, "takes", args.takes, ranks), item);
      require(c.sends[own].bytes == c.takes[own].bytes,
              "{}: takes: got {} elements from this rank itself, expected the {} that it sends",
              row.name, c.takes[own].bytes / item, c.sends[own].bytes / item);
      break;
  }
  // What one rank says of its own parts alone, the others do not know.
  const bool equal = args.counts.size() == 1 && args.takes.size() == 1;
  if (collective != Collective::all_to_all || equal) c.counts = counts;
  check_memory(row.name, "in", args.in, end_of(c.sends), row_of(args.item).bytes);
  check_memory(row.name, "out", args.out, end_of(c.takes), row_of(args.item).bytes);
  check_apart(row.name, c, args);
  return c;
}

namespace {

/// Units of the longest parcel of any rank, as far as this rank knows.
Index longest(const CollectiveCall& c, int shots) {
  Index most = 0;
  const auto item = static_cast<Index>(row_of(c.item).bytes);
  for (const Index count : c.counts) most = std::max(most, ceil_div(count * item, kUnitBytes));
  for (const auto* side : {&c.sends, &c.takes})
    for (const Parcel& p : *side) most = std::max(most, ceil_div(p.bytes, kUnitBytes));
  return shots == 2 ? ceil_div(most, c.ranks) : most;
}

/// Bytes that leave a rank, at most.
double sent_bytes(const CollectiveCall& c, int shots) {
  const double units = static_cast<double>(longest(c, shots)) * kUnitBytes;
  return units * (c.ranks - 1) * shots;
}

double lines_us(const CollectiveCall& c, const Hardware& h, int shots) {
  return h.call_us * shots + us_at(2 * sent_bytes(c, shots), h.store_gbps);
}
double chunks_us(const CollectiveCall& c, const Hardware& h, int shots) {
  return h.call_us * shots + h.flag_us + us_at(sent_bytes(c, shots), h.store_gbps);
}

/// Places that a chunk takes on each rank.
Index places(const CollectiveCall& c, int shots) { return Index{c.ranks - 1} * shots; }

bool lines_fit(const CollectiveCall& c, int shots, Index most_workers) {
  const Index units = longest(c, shots);
  return units <= most_workers * kMostChunk &&
         (units + kMostChunk) * std::max<Index>(places(c, shots), 1) * kBytesOfLines <= kLineBytes;
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
  const Index grain = machine.gpu ? kLineGroup : 1, full = machine.gpu ? kFullChunk : kMostChunk;
  const Index room = machine.staged_bytes /
                     (kUnitBytes * schedule::kRing * std::max<Index>(places(c, p.shots), 1));
  Index most = ctas_of(machine, c.ranks == 2 ? kCtasOfTwo : kCtas, o) * each;
  most = std::clamp<Index>(room / (grain * each) * each, each, most);
  if (machine.gpu) most = even(most / each) * each;
  const Index half = even(std::max<Index>(most / each / 2, 1)) * each;
  if (machine.gpu && units <= half * full) most = half;
  Index chunk = o.chunk ? ceil_div(*o.chunk, kUnitBytes) : up_to(ceil_div(units, most), grain);
  if (!o.chunk) chunk = std::min(chunk, full);
  p.chunk = std::clamp<Index>(chunk, 1, std::max<Index>(1, std::min(kMostChunk, room / most)));
  const Index ctas = paired(ceil_div(ceil_div(units, p.chunk), each));
  p.workers = static_cast<int>(machine.gpu ? std::min(ctas * each, most)
                                           : std::clamp<Index>(ceil_div(units, p.chunk), 1, most));
}

int shots_of(const CollectiveCall& c, const CollectiveOptions& o, const Hardware& h, bool lines) {
  if (!row_of(c.collective).shares) return 1;
  if (o.shots) return *o.shots;
  const auto us = lines ? lines_us : chunks_us;
  return us(c, h, 2) < us(c, h, 1) ? 2 : 1;
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

CollectivePlan plan_collective(const CollectiveCall& c, const CollectiveMachine& machine,
                               const CollectiveOptions& o, bool direct) {
  check_options(c, o);
  const std::string_view name = row_of(c.collective).name;
  const Hardware& h = plans_of(machine.architecture).hardware;
  CollectivePlan p;
  const int line_shots = shots_of(c, o, h, true), chunk_shots = shots_of(c, o, h, false);
  const bool known = !c.counts.empty();  // how long each rank's parcels are
  const Index line_ctas = even(ctas_of(machine, c.ranks == 2 ? kCtas : 1, o));
  const bool fit = machine.gpu && known && lines_fit(c, line_shots, line_ctas);
  require(fit || !machine.gpu || !o.lines.value_or(false),
          "{}: lines: got {} bytes, expected what their places have room for{}", name,
          longest(c, line_shots) * kUnitBytes, known ? "" : ", in equal parts");
  p.lines = fit && o.lines.value_or(lines_us(c, h, line_shots) <= chunks_us(c, h, chunk_shots));
  p.shots = p.lines ? line_shots : chunk_shots;
  p.direct = direct && !p.lines;
  const Index units = longest(c, p.shots);
  if (p.lines)
    spread_lines(p, units, line_ctas);
  else
    spread_chunks(p, c, known ? units : kMostChunk * kMostWorkers, machine, o);
  p.piece = p.workers * p.chunk * schedule::kMaxExchangeRounds;
  p.pieces = std::max<Index>(1, ceil_div(units, p.piece));
  require(p.pieces == 1 || known, "{}: counts: got {} bytes for a rank, expected at most {}", name,
          units * kUnitBytes, p.piece * kUnitBytes);
  p.predicted_us = p.lines ? lines_us(c, h, p.shots) : chunks_us(c, h, p.shots);
  return p;
}

std::string describe(const CollectivePlan& p) {
  return fmt::format("{}{}{}, {} workers, chunk {} bytes{}", p.lines ? "lines" : "chunks",
                     p.shots == 2 ? " in two shots" : "", p.direct ? ", direct" : "", p.workers,
                     p.chunk * kUnitBytes,
                     p.pieces == 1 ? "" : fmt::format(", {} pieces", p.pieces));
}

namespace {

/// Units [begin, begin + units) of a parcel.
Parcel part_of(const Parcel& p, Index begin, Index units) {
  const Index at = std::min(begin * kUnitBytes, p.bytes);
  return {p.at + at, std::min(units * kUnitBytes, p.bytes - at)};
}

/// Of an all_reduce in two shots: what each rank sums.
Parcel owned_by(const Parcel& whole, int ranks, int owner) {
  const schedule::RowSplit split{ceil_div(whole.bytes, kUnitBytes), ranks, nullptr};
  const schedule::RowRange own = split.shard(owner);
  return part_of(whole, own.begin, own.size());
}

}  // namespace

template <int kMost>
PlacedExchange<kMost> place_exchange(const CollectiveCall& c, const CollectivePlan& p,
                                     Index piece) {
  PlacedExchange<kMost> placed;
  auto& s = placed.schedule;
  s.rank = c.rank;
  s.ranks = c.ranks;
  s.workers = p.workers;
  s.chunk = p.chunk;
  s.ring = p.lines ? 1 : schedule::kRing;
  s.sums = row_of(c.collective).sums;
  s.shares = p.shots == 2;
  s.direct = p.direct;
  const auto own = static_cast<std::size_t>(c.rank);
  for (int q = 0; q < c.ranks; ++q) {
    const auto at = static_cast<std::size_t>(q);
    const Parcel send = s.shares ? owned_by(c.sends[at], c.ranks, q) : c.sends[at];
    const Parcel take = s.shares ? owned_by(c.takes[at], c.ranks, q) : c.takes[at];
    placed.sends[q] = part_of(send, piece * p.piece, p.piece);
    placed.takes[q] = part_of(take, piece * p.piece, p.piece);
    s.sends[q] = ceil_div(placed.sends[q].bytes, kUnitBytes);
    s.takes[q] = ceil_div(placed.takes[q].bytes, kUnitBytes);
    s.owned[q] = s.shares ? s.takes[q] : 0;
  }
  // What comes in for a sum is as long as the sum.
  for (int q = 0; q < c.ranks && s.shares; ++q) s.takes[q] = s.owned[own];
  return placed;
}

template PlacedExchange<schedule::kMaxGpuRanks> place_exchange(const CollectiveCall&,
                                                               const CollectivePlan&, Index);
template PlacedExchange<64> place_exchange(const CollectiveCall&, const CollectivePlan&, Index);

namespace {

class WordHash {
 public:
  void add(std::uint64_t word) {
    value_ = (value_ ^ word) * 0x9e3779b97f4a7c15U;
    value_ ^= value_ >> 29U;
  }
  [[nodiscard]] std::uint32_t word() const {
    const auto folded = static_cast<std::uint32_t>(value_ ^ value_ >> 32U);
    return folded < kFirstHash ? folded + kFirstHash : folded;
  }

 private:
  std::uint64_t value_ = 0x6c6c6f63;
};

}  // namespace

std::uint32_t collective_hash(const CollectiveCall& c, const CollectivePlan& p,
                              std::uint64_t where) {
  WordHash h;
  for (const auto word :
       {static_cast<std::uint64_t>(c.collective), static_cast<std::uint64_t>(c.reduction),
        static_cast<std::uint64_t>(c.item), static_cast<std::uint64_t>(c.ranks),
        std::uint64_t{p.lines}, static_cast<std::uint64_t>(p.shots), std::uint64_t{p.direct},
        static_cast<std::uint64_t>(p.workers), static_cast<std::uint64_t>(p.chunk),
        c.counts.size()})
    h.add(word);
  for (const Index count : c.counts) h.add(static_cast<std::uint64_t>(count));
  h.add(where);
  if (c.meaning != 0) h.add(c.meaning);
  return h.word();
}

std::uint32_t hash_between(const CollectiveCall& c, std::uint32_t hash, int from, int to) {
  if (!c.counts.empty()) return hash;
  const auto peer = static_cast<std::size_t>(from == c.rank ? to : from);
  const Index sent = c.sends[peer].bytes, taken = c.takes[peer].bytes;
  const bool up = c.rank < static_cast<int>(peer);  // the same on both sides: from the lower first
  WordHash h;
  h.add(hash);
  h.add(static_cast<std::uint64_t>(up ? sent : taken));
  h.add(static_cast<std::uint64_t>(up ? taken : sent));
  return h.word();
}

}  // namespace plan
}  // namespace tilelace
