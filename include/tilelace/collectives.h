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

/// `all_reduce`, `all_gather`, `reduce_scatter` and `all_to_all`, as NCCL and MPI have them.
enum class Collective : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all };
/// How elements are combined. `sum`; `avg`: the sum, divided by the number of ranks before the one
/// rounding, floats only; `max`: the largest.
enum class Reduction : std::uint8_t { sum, avg, max };
/// Element types: `bf16`, `fp16`, `fp32`, `i32`, `i64`, `u8`. A collective that only moves elements
/// takes any type of the same width.
enum class Item : std::uint8_t { bf16, fp16, fp32, i32, i64, u8 };

/// What there is to know of a collective.
struct CollectiveRow {
  Collective collective;  ///< the one that the row is for
  std::string_view name;  ///< as the command and records spell it
  std::string_view help;  ///< one line for --help
  bool sums = false;      ///< what ranks have is added up
  bool shares = false;    ///< sums travel to all ranks
};

/// In the order of the enum.
inline constexpr std::array kCollectives{
    CollectiveRow{Collective::all_reduce, "all_reduce",
                  "the sum of all ranks' elements, on every rank", true, true},
    CollectiveRow{Collective::all_gather, "all_gather",
                  "elements of all ranks, one rank's after the other's, on every rank"},
    CollectiveRow{Collective::reduce_scatter, "reduce_scatter",
                  "the sum of all ranks' elements, a part of it on each rank", true},
    CollectiveRow{Collective::all_to_all, "all_to_all",
                  "to each rank its part of every rank's elements"}};

/// What there is to know of an element type of collectives.
struct ItemRow {
  Item item;              ///< the type that the row is for
  std::string_view name;  ///< as the command spells it
  std::size_t bytes;      ///< of an element
  bool floats = false;    ///< a floating-point type, summed in fp32
};

/// In the order of the enum.
inline constexpr std::array kItems{
    ItemRow{Item::bf16, "bf16", 2, true}, ItemRow{Item::fp16, "fp16", 2, true},
    ItemRow{Item::fp32, "fp32", 4, true}, ItemRow{Item::i32, "i32", 4},
    ItemRow{Item::i64, "i64", 8},         ItemRow{Item::u8, "u8", 1}};

/// The row of a collective; std::out_of_range for a value that names none.
constexpr const CollectiveRow& row_of(Collective c) {
  return kCollectives.at(static_cast<std::size_t>(c));
}
/// The row of an element type; std::out_of_range for a value that names none.
constexpr const ItemRow& row_of(Item i) { return kItems.at(static_cast<std::size_t>(i)); }
/// The reduction's name. Errors: none; another value has a text, too.
std::string_view name_of(Reduction);

/// One call. Ranks make the same calls in the same order.
/// Counts are of elements; `counts` has one entry, the same on every rank, or one a rank:
///   all_reduce      {count}: in and out [count]
///   all_gather      of each rank's part: in [counts[rank]], out [all of them], by rank
///   reduce_scatter  of each rank's part: in [all of them], by rank, out [counts[rank]]
///   all_to_all      to each rank: in [all of them], by rank; out [sum of takes], by rank
/// What rank a sends rank b in an all_to_all is what b takes from a.
/// Zero is a count like others. In place: all_reduce with out == in; all_gather with in, and
/// reduce_scatter with out, where it has its place in the whole; else in and out lie apart.
struct CollectiveArgs {
  const void* in = nullptr;                   ///< aligned to an element; to 16 bytes it is faster
  void* out = nullptr;                        ///< the same
  Item item = Item::bf16;                     ///< type of the elements
  Reduction reduction = Reduction::sum;       ///< all_reduce and reduce_scatter
  std::span<const std::int64_t> counts = {};  ///< elements, as above
  /// all_to_all: elements from each rank; one entry: the same number from all.
  std::span<const std::int64_t> takes = {};
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

/// out [count] = the sum (avg, max) over ranks of in [count], the same bits on every rank.
/// Sums run in fp32 (integers: in their own type, they wrap around) in rank order and are rounded
/// once: the same bits in every form, at every size and in every run. At most 8 ranks on GPUs.
/// Collective. CPU ranks: blocking. GPU ranks: enqueued on args.stream, after what is in it; what
/// comes later in the stream sees `out` whole and may write `in`. One stream at a time for a
/// communicator, its fused ops' too. May be captured. Alignment: an element; 16 bytes are faster.
/// Traffic: 2 (ranks - 1) / ranks of the bytes leave each rank, or (ranks - 1) times the bytes in
/// one shot; lines take twice the bytes.
/// Errors: usage (a wrong argument: before anything is sent; ranks that disagree: before any result
/// is written), system (memory for staging), peer, timeout; on GPUs those that depend on peers come
/// from the next call or synchronize().
void all_reduce(Communicator&, const CollectiveArgs&, const CollectiveOptions& = {});

/// out [sum of counts] = every rank's in [counts[rank]], in rank order. Collective, in the stream,
/// aligned and with errors as all_reduce. Traffic: (ranks - 1) times the own part leaves each rank;
/// lines take twice the bytes.
void all_gather(Communicator&, const CollectiveArgs&, const CollectiveOptions& = {});

/// out [counts[rank]] = this rank's part of the sum over ranks of in [sum of counts]. Sums,
/// collective, in the stream, aligned and with errors as all_reduce. Traffic: all but the own part
/// of `in` leaves each rank; lines take twice the bytes.
void reduce_scatter(Communicator&, const CollectiveArgs&, const CollectiveOptions& = {});

/// Sends each rank its part of in [sum of counts]; out [sum of takes] is what came, in rank order.
/// Collective, in the stream, aligned and with errors as all_reduce; where the lists of one pair do
/// not fit, other ranks may have written a part of `out`. Traffic: all but the own part of `in`
/// leaves each rank; lines take twice the bytes.
void all_to_all(Communicator&, const CollectiveArgs&, const CollectiveOptions& = {});

/// The collective that is named. Collective, with traffic and errors as all_reduce.
void collect(Communicator&, Collective, const CollectiveArgs&, const CollectiveOptions& = {});

/// Stands for a collective that this rank cannot make: the peers get a usage error with this reason
/// instead of waiting, as by refuse (tilelace/ops.h). Collective. Errors: peer, timeout; usage (a
/// first collective: all prepare, and are told).
void refuse_collective(Communicator&, const std::string& reason, void* stream = nullptr);

/// How such a call would run, in words: lines or chunks, shots, workers, chunk, pieces. Local.
/// Errors: usage (arguments or options that the call would refuse).
std::string describe_collective(const Communicator&, Collective, const CollectiveArgs&,
                                const CollectiveOptions& = {});

}  // namespace tilelace
