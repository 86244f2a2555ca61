// SPDX-License-Identifier: Apache-2.0
// Collectives without a GEMM: all_reduce, all_gather, reduce_scatter, all_to_all. Tensors are
// contiguous, and their sizes are given in elements. Calls of any size run without prepare().
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

/// The collectives `all_reduce`, `all_gather`, `reduce_scatter` and `all_to_all` of NCCL and MPI.
enum class Collective : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all };
/// How elements are combined. `sum`: the sum; `avg` (floats only): the sum divided by the number of
/// ranks, then rounded once; `max`: the largest element.
enum class Reduction : std::uint8_t { sum, avg, max };
/// Element types: `bf16`, `fp16`, `fp32`, `i32`, `i64`, `u8`. In all_gather and all_to_all, which
/// only move elements, an Item stands for any type of its width.
enum class Item : std::uint8_t { bf16, fp16, fp32, i32, i64, u8 };

/// Facts about a collective.
struct CollectiveRow {
  Collective collective;  ///< the collective that the row is for
  std::string_view name;  ///< as the command and records spell it
  std::string_view help;  ///< one line for --help
  bool sums = false;      ///< true: combines elements of all ranks by a Reduction
  bool shares = false;    ///< true: combines elements, and each rank gets the whole result
};

/// One row per collective, in the order of the enum.
inline constexpr std::array kCollectives{
    CollectiveRow{Collective::all_reduce, "all_reduce",
                  "the sum of all ranks' elements, on every rank", true, true},
    CollectiveRow{Collective::all_gather, "all_gather",
                  "elements of all ranks, one rank's after the other's, on every rank"},
    CollectiveRow{Collective::reduce_scatter, "reduce_scatter",
                  "the sum of all ranks' elements, a part of it on each rank", true},
    CollectiveRow{Collective::all_to_all, "all_to_all",
                  "to each rank its part of every rank's elements"}};

/// Facts about an element type of collectives.
struct ItemRow {
  Item item;              ///< the type that the row is for
  std::string_view name;  ///< as the command spells it
  std::size_t bytes;      ///< per element
  bool floats = false;    ///< a floating-point type, summed in fp32
};

/// One row per element type, in the order of the enum.
inline constexpr std::array kItems{
    ItemRow{Item::bf16, "bf16", 2, true}, ItemRow{Item::fp16, "fp16", 2, true},
    ItemRow{Item::fp32, "fp32", 4, true}, ItemRow{Item::i32, "i32", 4},
    ItemRow{Item::i64, "i64", 8},         ItemRow{Item::u8, "u8", 1}};

/// The row of a collective; throws std::out_of_range if the value names no collective.
constexpr const CollectiveRow& row_of(Collective c) {
  return kCollectives.at(static_cast<std::size_t>(c));
}
/// The row of an element type; throws std::out_of_range if the value names no type.
constexpr const ItemRow& row_of(Item i) { return kItems.at(static_cast<std::size_t>(i)); }
/// The reduction's name. Errors: std::out_of_range (an unknown value).
std::string_view name_of(Reduction);

/// Arguments of one call. Ranks make the same calls in the same order. `counts`, in elements, has
/// one entry per rank, or one for all ranks. It is equal on all ranks, except in all_to_all. By op:
///   all_reduce      one entry, count: in and out [count]
///   all_gather      the size of each rank's part: in [counts[rank]], out [sum of counts]
///   reduce_scatter  the size of each rank's part: in [sum of counts], out [counts[rank]]
///   all_to_all      how much of in [sum of counts] goes to each rank; out [sum of takes]
/// Parts lie in rank order; a count may be 0. In an all_to_all, rank b must take as many elements
/// from rank a as a sends to b. In place: all_reduce with out == in, all_gather whose `in` is this
/// rank's part of `out`, reduce_scatter whose `out` is this rank's part of `in`. Otherwise in and
/// out must not overlap. GPU ranks: a tensor in a SymmetricBuffer must lie at the same offset in
/// each rank's part; else calls without staging end in a usage error (docs/collectives.md).
struct CollectiveArgs {
  const void* in = nullptr;                   ///< aligned to an element; 16 bytes are faster
  void* out = nullptr;                        ///< aligned like `in`
  Item item = Item::bf16;                     ///< type of the elements
  Reduction reduction = Reduction::sum;       ///< only for all_reduce and reduce_scatter
  std::span<const std::int64_t> counts = {};  ///< elements, as above
  /// all_to_all: elements to receive from each rank; one entry: the same number from all ranks.
  std::span<const std::int64_t> takes = {};
  void* stream = nullptr;  ///< GPU ranks: a cudaStream_t; null: the default stream
};

/// How a call runs. Options must be equal on every rank. The planner chooses the empty options.
struct CollectiveOptions {
  /// true: send lines, small units that hold their own flag, good for few bytes
  /// (docs/collectives.md); false: send chunks, each followed by a flag.
  std::optional<bool> lines;
  std::optional<int> shots;           ///< all_reduce: each rank sums all (1) or only its part (2)
  std::optional<int> workers;         ///< limit of CTAs (CPU: workers); a low limit leaves SMs free
  std::optional<std::int64_t> chunk;  ///< bytes that a worker moves at a time to each rank

  bool operator==(const CollectiveOptions&) const = default;
};

/// Allocates the staging of collectives on this communicator. A second prepare_collectives() does
/// nothing. Without this call the first collective allocates the staging and must not be captured.
/// Collective. Memory: a fixed number of bytes per rank for all sizes (docs/collectives.md).
/// Errors: usage (more than 8 ranks on GPUs, ranks that share a GPU), system, peer, timeout.
void prepare_collectives(Communicator&);

/// out [count] = the sum (average, maximum) over ranks of in [count], the same bits on every rank.
/// Sums run in rank order in fp32 and are rounded once (integers: in their own type, wrapping).
/// Options, sizes and runs do not change the bits. At most 8 ranks on GPUs. Collective.
/// CPU ranks: blocking. GPU ranks: enqueued on args.stream after the work in it; later work in the
/// stream sees the whole `out` and may write `in`. Use one stream at a time for all collectives and
/// fused ops of a communicator. May be captured. Alignment: an element (faster: 16 bytes).
/// Traffic: each rank sends 2 (ranks - 1) / ranks times the bytes of `in`, or (ranks - 1) times if
/// `shots` is 1; lines double the traffic.
/// Errors: usage (a wrong argument, before anything is sent; ranks that disagree, before any result
/// is written), system (memory for staging), peer, timeout; on GPUs the next call or synchronize()
/// throws errors that depend on peers.
void all_reduce(Communicator&, const CollectiveArgs&, const CollectiveOptions& = {});

/// out [sum of counts] = every rank's in [counts[rank]], in rank order. Collective; stream,
/// alignment and errors are as for all_reduce. Traffic: each rank sends its part (ranks - 1) times;
/// lines double the traffic.
void all_gather(Communicator&, const CollectiveArgs&, const CollectiveOptions& = {});

/// out [counts[rank]] = this rank's part of the sum over ranks of in [sum of counts]. Collective;
/// sums, stream, alignment and errors are as for all_reduce. Traffic: each rank sends all of `in`
/// except its own part; lines double the traffic.
void reduce_scatter(Communicator&, const CollectiveArgs&, const CollectiveOptions& = {});

/// Sends each rank its part of in [sum of counts]; out [sum of takes] receives all ranks' parts, in
/// rank order. Collective; stream, alignment and errors are as for all_reduce. If counts and takes
/// of two ranks do not match, a third rank may write a part of its `out` before it gets the error.
/// Traffic: each rank sends all of `in` except its own part; lines double the traffic.
void all_to_all(Communicator&, const CollectiveArgs&, const CollectiveOptions& = {});

/// Calls the function of the given collective. Collective. Errors: those of that function.
void collect(Communicator&, Collective, const CollectiveArgs&, const CollectiveOptions& = {});

/// Call this in place of a collective that this rank cannot make. The peers then get a usage error
/// with this reason instead of waiting, as with refuse (tilelace/ops.h). Collective. Errors: peer,
/// timeout; usage, on every rank, if this call replaces the communicator's first collective.
void refuse_collective(Communicator&, const std::string& reason, void* stream = nullptr);

/// Describes how this call would run: lines or chunks, shots, workers, chunk, pieces. Local.
/// Errors: usage (arguments or options that the call would refuse).
std::string describe_collective(const Communicator&, Collective, const CollectiveArgs&,
                                const CollectiveOptions& = {});

}  // namespace tilelace
