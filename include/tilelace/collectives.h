// SPDX-License-Identifier: Apache-2.0
// Collectives by themselves: all_reduce, all_gather, reduce_scatter, all_to_all. They count
// elements that lie one after the other, and need no preparation for a size.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tilelace {

class Communicator;

enum class Collective : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all };
/// avg: the sum, divided by the number of ranks before the one rounding; of floats alone.
enum class Reduction : std::uint8_t { sum, avg, max };
/// Elements of collectives. What only moves is any type as wide.
enum class Item : std::uint8_t { bf16, fp16, fp32, i32, i64, u8 };

struct CollectiveRow {
  Collective collective;
  std::string_view name;
  std::string_view help;
  bool sums = false;    ///< what ranks have is added up
  bool shares = false;  ///< sums travel to all ranks
};

inline constexpr std::array kCollectives{
    CollectiveRow{Collective::all_reduce, "all_reduce",
                  "the sum of all ranks' elements, on every rank", true, true},
    CollectiveRow{Collective::all_gather, "all_gather",
                  "elements of all ranks, one rank's after the other's, on every rank"},
    CollectiveRow{Collective::reduce_scatter, "reduce_scatter",
                  "the sum of all ranks' elements, a part of it on each rank", true},
    CollectiveRow{Collective::all_to_all, "all_to_all",
                  "to each rank its part of every rank's elements"}};

struct ItemRow {
  Item item;
  std::string_view name;
  std::size_t bytes;
  bool floats = false;
};

inline constexpr std::array kItems{
    ItemRow{Item::bf16, "bf16", 2, true}, ItemRow{Item::fp16, "fp16", 2, true},
    ItemRow{Item::fp32, "fp32", 4, true}, ItemRow{Item::i32, "i32", 4},
    ItemRow{Item::i64, "i64", 8},         ItemRow{Item::u8, "u8", 1}};

constexpr const CollectiveRow& row_of(Collective c) {
  return kCollectives.at(static_cast<std::size_t>(c));
}
constexpr const ItemRow& row_of(Item i) { return kItems.at(static_cast<std::size_t>(i)); }
std::string_view name_of(Reduction);

/// One call. Ranks make the same calls in the same order.
/// Counts are of elements; `counts` has one entry, the same on every rank, or one a rank:
///   all_reduce      {count}: in and out [count]
///   all_gather      of each rank's part: in [counts[rank]], out [all of them], by rank
///   reduce_scatter  of each rank's part: in [all of them], by rank, out [counts[rank]]
///   all_to_all      to each rank: in [all of them], by rank; out [sum of takes], by rank; what
///   rank
///                   a sends b is what b takes from a
/// Zero is a count like others. In place: all_reduce with out == in; all_gather with in, and
/// reduce_scatter with out, where it has its place in the whole; else in and out lie apart.
struct CollectiveArgs {
  const void* in = nullptr;  ///< aligned to an element; to 16 bytes it is faster
  void* out = nullptr;       ///< likewise
  Item item = Item::bf16;
  Reduction reduction = Reduction::sum;  ///< all_reduce and reduce_scatter
  std::span<const std::int64_t> counts = {};
  std::span<const std::int64_t> takes = {};  ///< all_to_all: from each rank; one entry: the same
  void* stream = nullptr;  ///< GPU ranks: a cudaStream_t; null: the default stream
};

/// How a call runs; empty ones are left to the planner. Equal on every rank.
struct CollectiveOptions {
  /// true: units that carry the call's number, for few bytes (docs/collectives.md); false: chunks
  /// with a flag each.
  std::optional<bool> lines;
  std::optional<int> shots;    ///< all_reduce: 1, everyone adds all; 2, owners add and send the sum
  std::optional<int> workers;  ///< GPUs: CTAs at most, for calls that run beside products
  std::optional<std::int64_t> chunk;  ///< bytes that a worker moves at a time, of each parcel

  bool operator==(const CollectiveOptions&) const = default;
};

/// Staging for collectives on this communicator, once; later calls do nothing. The first collective
/// does it, unless it is captured: then this must have come before. Collective. Memory: a fixed
/// number of bytes a rank whatever calls have (docs/collectives.md). Errors: usage (more ranks than
/// 8 on GPUs, ranks that share one), system, peer, timeout.
void prepare_collectives(Communicator&);

/// The collective of that name. Sums run in fp32 (integers: in their own type, they wrap around) in
/// rank order and are rounded once: the same bits on every rank, in every form, at every size and
/// in every run. On GPUs at most 8 ranks. Collective. CPU ranks: blocking. GPU ranks: enqueued on
/// args.stream, after what is in it; what comes later in the stream sees `out` whole and may write
/// `in`. One stream at a time for a communicator, its gemms' too. May be captured.
/// Traffic that leaves each rank, S bytes of the whole: all_gather and reduce_scatter (ranks - 1) /
/// ranks S; all_reduce twice that, or (ranks - 1) S in one shot; lines take twice the bytes.
/// Errors: usage (a wrong argument: before anything is sent; ranks that disagree: before any result
/// is written, but of an all_to_all whose lists do not fit in one pair other ranks may have written
/// a part), peer, timeout; on GPUs those that depend on peers come from the next call or
/// synchronize().
void all_reduce(Communicator&, const CollectiveArgs&, const CollectiveOptions& = {});
void all_gather(Communicator&, const CollectiveArgs&, const CollectiveOptions& = {});
void reduce_scatter(Communicator&, const CollectiveArgs&, const CollectiveOptions& = {});
void all_to_all(Communicator&, const CollectiveArgs&, const CollectiveOptions& = {});
/// The one that is named.
void collect(Communicator&, Collective, const CollectiveArgs&, const CollectiveOptions& = {});

/// Takes the place of a collective that this rank cannot make, as refuse (tilelace/ops.h) that of
/// an op. Collective. Errors: peer, timeout; usage (a first collective: all prepare, and are told).
void refuse_collective(Communicator&, const std::string& reason, void* stream = nullptr);

/// How such a call would run, in words: lines or chunks, shots, workers, chunk, pieces. Local.
/// Errors: usage.
std::string describe_collective(const Communicator&, Collective, const CollectiveArgs&,
                                const CollectiveOptions& = {});

}  // namespace tilelace
