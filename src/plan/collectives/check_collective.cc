// SPDX-License-Identifier: Apache-2.0
// What the arguments of a collective say, and what is wrong with them.
#include <algorithm>
#include <array>

#include "core/check.h"
#include "plan/base/problem.h"
#include "plan/collectives/collective.h"

namespace tilelace {

std::string_view name_of(Reduction r) {
  return std::array<std::string_view, 3>{"sum", "avg", "max"}.at(static_cast<std::size_t>(r));
}

namespace plan {
namespace {

/// One entry for all ranks, or one each.
std::vector<Index> by_rank(std::string_view name, std::string_view what,
                           std::span<const std::int64_t> counts, int ranks) {
  require(counts.size() == 1 || counts.size() == static_cast<std::size_t>(ranks),
          "{}: {}: got {} entries, expected one, or one per rank ({})", name, what, counts.size(),
          ranks);
  std::vector<Index> all(static_cast<std::size_t>(ranks), counts.front());
  if (counts.size() > 1) all.assign(counts.begin(), counts.end());
  Index total = 0;
  for (const Index count : all) {
    require(count >= 0 && count <= kMaxExtent - total,
            "{}: {}: got an entry {}, expected 0 or more, at most {} elements in all", name, what,
            count, kMaxExtent);
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
          "{}: item: got the unknown value {}, expected bf16, fp16, fp32, i32, i64 or u8", name,
          static_cast<int>(args.item));
  require(args.reduction <= Reduction::max,
          "{}: reduction: got the unknown value {}, expected sum, avg or max", name,
          static_cast<int>(args.reduction));
  require(row.sums || args.reduction == Reduction::sum,
          "{}: reduction: got {}, expected the default (sum), since this collective adds nothing",
          name, name_of(args.reduction));
  require(args.reduction != Reduction::avg || row_of(args.item).floats,
          "{}: item with reduction avg: got {}, expected bf16, fp16 or fp32", name,
          row_of(args.item).name);
}

/// Where a tensor may lie.
void check_memory(std::string_view name, std::string_view what, const void* data, Index bytes,
                  std::size_t item) {
  require(bytes == 0 || data != nullptr, "{}: {}: got null data, expected {} bytes", name, what,
          bytes);
  require(reinterpret_cast<std::uintptr_t>(data) % item == 0,
          "{}: {}: got data {} bytes off alignment, expected alignment to elements of {} bytes",
          name, what, reinterpret_cast<std::uintptr_t>(data) % item, item);
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
  require(in_place, "{}: in and out overlap: pass separate tensors{}", name,
          c.collective == Collective::all_to_all
              ? ""
              : ", or work in place as docs/collectives.md says");
}

}  // namespace

Item item_of(DType dtype) {
  const std::string_view name = name_of(dtype);
  const auto* const row = std::find_if(kItems.begin(), kItems.end(),
                                       [&](const ItemRow& item) { return item.name == name; });
  require(row != kItems.end(),
          "collective: elements: got {}, expected bf16, fp16, fp32, i32, i64 or u8", name);
  return row->item;
}

const CollectiveRow& known_row(Collective collective) {
  require(
      static_cast<std::size_t>(collective) < kCollectives.size(),
      "collective: got the unknown value {}, expected all_reduce, all_gather, reduce_scatter or "
      "all_to_all",
      static_cast<int>(collective));
  return row_of(collective);
}

CollectiveCall check_collective(Collective collective, const CollectiveArgs& args, int rank,
                                int ranks) {
  const CollectiveRow& row = known_row(collective);
  check_known(row.name, args, row);
  const auto item = static_cast<Index>(row_of(args.item).bytes);
  CollectiveCall c{collective, args.reduction, args.item, rank, ranks, {}, {}, {}};
  const auto own = static_cast<std::size_t>(rank);
  const auto all = static_cast<std::size_t>(ranks);
  require(collective == Collective::all_to_all || args.takes.empty(),
          "{}: takes: got {} entries, expected none: only all_to_all has takes", row.name,
          args.takes.size());
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
              "{}: takes: got {} elements from this rank itself, expected the {} that it sends to "
              "itself",
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

}  // namespace plan
}  // namespace tilelace
