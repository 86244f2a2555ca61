// SPDX-License-Identifier: Apache-2.0
// One call for the checker: its description, the schedule of every rank, and how memory is divided
// into cells, the smallest parts that the checker tells apart.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "check/exchange.h"
#include "check/memory.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace::check {

/// How a kernel walks the tiles of a fused ag_gemm or gemm_rs, if CallSpec::straddle is false
/// (schedule/gather_tiles.h, reduce_tiles.h). The default is how CPU ranks walk.
struct WalkSpec {
  int apart = -1;               ///< how many shards are walked one after the other; -1: all
  std::vector<int> joins = {};  ///< apart 0: the i-th shard to arrive joins after joins[i] tiles
  bool whole = false;           ///< ag_gemm, transport store: a tile may span several shards
  bool across = false;          ///< if `whole`: the walk's rows are columns of the result
  bool together = false;        ///< gemm_rs: remote shards are walked together
  bool pairs = false;           ///< gemm_rs: the CTAs of a cluster have tiles of two shards
  bool along_cols = false;
  int wide = 1 << 20, deep = 1;  ///< a block is `wide` x `deep` tiles (schedule::GemmOrder)

  bool operator==(const WalkSpec&) const = default;
};

struct CallSpec {
  Op op = {};
  std::int64_t m = 0;
  std::vector<std::int64_t> rows;  ///< rows of each shard; empty: even, the first may have 1 more
  std::int64_t cols = 1;           ///< columns of tiles; in ag_gemm, 0 means only a gather
  int tile_m = 128;
  std::int64_t chunk_rows = 128;
  int raster_group = 1;
  RouteKind route = RouteKind::mesh;
  int local = 1;  ///< route two_level: ranks per node
  Transport transport = {};
  bool straddle = false;
  int blocks = 1;
  bool deliver = false;
  std::int64_t block_grain = 1;  ///< gemm_ar: blocks are multiples of this many rows
  /// gemm_rs, gemm_ar: the sum follows the GEMM (schedule/reduce_rows.h), with one unit per row.
  /// The transport is pull or, for a two-shot gemm_ar, store; pushed sums are checked as
  /// collectives. The GEMM is one step, so tiles do not matter.
  bool unfused = false;
  /// Unfused gemm_rs: a product a shard, whose partial a copy engine takes to its owner. Then
  /// `transport` has no effect, but must not be store.
  bool copied = false;
  int shots = 1;        ///< transport multimem: 1 is one-shot, 2 is two-shot
  bool direct = false;  ///< multimem, two-shot: sums are stored straight in the peers' results
  /// Fused gemm_ar of GPUs (schedule/share_order.h): the own tiles of a column are computed `lag`
  /// columns after its remote tiles; 0: other calls. Needs transport store; `blocks` is per shard.
  int lag = 0;
  bool by_columns = false;  ///< with lag: a rank owns some columns of all rows, in one block
  WalkSpec walk;
  /// If set, the call is this collective, and no field above is used.
  std::optional<ExchangeSpec> exchange = {};

  bool operator==(const CallSpec&) const = default;
};

std::string to_string(const CallSpec&);
/// Name of the op or the collective.
std::string_view name_of(const CallSpec&);
std::ostream& operator<<(std::ostream&, const CallSpec&);

/// The spec of a backend's schedule: CallPlan(spec_of(s), s.ranks(), s.workers) has the same
/// schedule.
CallSpec spec_of(const schedule::AgGemm&);
CallSpec spec_of(const schedule::GemmReduce&);

/// The reason why this spec has no schedule; nullopt if it has one.
std::optional<std::string> legal(const CallSpec&, int ranks);

/// The fewest of a rank's actors that must run at once. It is 1 if actors wait only for peers'
/// actors of the same number, 2 if only for copy roles, else the number of all that peers wait for.
int min_resident(const CallSpec&, int workers);

/// How many workers of a rank start before its copy role.
int launched_first(const CallSpec&, int workers);

/// A region's rows, cut into cells where any tile or chunk begins, so an access covers whole cells.
class Cuts {
 public:
  explicit Cuts(Index rows);
  void mark(RowRange rows);
  void close();
  [[nodiscard]] Index cells() const { return static_cast<Index>(begins_.size()) - 1; }
  /// The first cell that begins at or after this row.
  [[nodiscard]] Index cell(Index row) const { return cell_[static_cast<std::size_t>(row)]; }
  [[nodiscard]] bool aligned(RowRange rows) const;
  [[nodiscard]] RowRange rows(Index cell) const;
  [[nodiscard]] Index num_rows() const { return static_cast<Index>(cell_.size()) - 1; }

 private:
  std::vector<std::int32_t> cell_;
  std::vector<Index> begins_;
};

/// Schedules with the tile orders that kernels use. Many... allow up to kMaxCheckedRanks ranks.
using GatherTiles = schedule::GatherTiles<schedule::GatherOrder>;
using ReduceTiles = schedule::ReduceTiles<schedule::ReduceOrder>;
using PairTiles = schedule::ReduceTiles<schedule::PairOrder>;
using ManyGatherTiles = schedule::GatherTiles<schedule::GatherOrderOf<kMaxCheckedRanks>>;
using ManyReduceTiles = schedule::ReduceTiles<schedule::ReduceOrderOf<kMaxCheckedRanks>>;

/// Immutable; shared by all calls with the same spec.
class CallPlan {
 public:
  /// Throws a usage error if legal() has a reason against the spec.
  CallPlan(const CallSpec& spec, int ranks, int workers);
  CallPlan(const CallPlan&) = delete;
  CallPlan& operator=(const CallPlan&) = delete;

  [[nodiscard]] const CallSpec& spec() const { return spec_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int workers() const { return workers_; }
  [[nodiscard]] Index num_flags() const { return num_flags_; }
  [[nodiscard]] FlagName flag(int rank, Index flag) const;
  /// Rows of this rank's result.
  [[nodiscard]] RowRange result_rows(int rank) const;
  [[nodiscard]] RowRange shard(int rank) const {
    return spec_.exchange ? result_rows(rank) : split().shard(rank);
  }

  /// Calls f(this rank's schedule). Only for calls with an AgGemm or GemmReduce schedule, so not
  /// for collectives or for calls that are unfused, use multimem or have a lag.
  template <class F>
  decltype(auto) visit(int rank, F&& f) const {
    const auto r = static_cast<std::size_t>(rank);
    if (row_of(spec_.op).gathers) return few() ? f(gather_.at(r)) : f(many_gather_.at(r));
    if (spec_.walk.pairs) return f(pairs_.at(r));
    return few() ? f(reduce_.at(r)) : f(many_reduce_.at(r));
  }
  /// This rank's schedule of a call with transport multimem.
  [[nodiscard]] const schedule::TileSums& switched(int rank) const {
    return switched_.at(static_cast<std::size_t>(rank));
  }
  /// This rank's schedule of a call with lag.
  [[nodiscard]] const schedule::SharedTiles& shared(int rank) const {
    return shared_.at(static_cast<std::size_t>(rank));
  }
  /// This rank's part of a collective.
  [[nodiscard]] const ExchangeCall& exchange(int rank) const {
    return exchanges_.at(static_cast<std::size_t>(rank));
  }
  /// Number of units on each rank that carry the call's epoch themselves (lines).
  [[nodiscard]] Index num_lines() const;
  /// As visit(), but for calls of all kinds.
  template <class F>
  decltype(auto) visit_any(int rank, F&& f) const {
    const auto r = static_cast<std::size_t>(rank);
    if (spec_.exchange) return f(exchanges_[r]);
    if (row_of(spec_.transport).needs_multicast()) return f(switched_[r]);
    if (spec_.lag > 0) return f(shared_[r]);
    if (!spec_.unfused) return visit(rank, f);
    return spec_.copied ? f(copied_[r]) : f(sums_[r]);
  }

  [[nodiscard]] bool has(Region region) const;
  [[nodiscard]] const Cuts& cuts(Region region, int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    if (region == Region::incoming || region == Region::lines) return incoming_[r];
    if (!spec_.exchange) return rows_;
    return region == Region::in ? in_[r] : out_[r];
  }
  [[nodiscard]] Index cols(Region region) const {
    if (spec_.exchange) return 1;
    const bool rows = region == Region::gathered || region == Region::delivered;
    return rows || (region == Region::incoming && numbered_) ? 1 : spec_.cols;
  }

 private:
  [[nodiscard]] schedule::RowSplit split() const;
  template <class Schedule>
  [[nodiscard]] Schedule common() const;
  [[nodiscard]] schedule::GemmOrder walk() const;
  [[nodiscard]] bool few() const { return ranks_ <= schedule::kMaxGpuRanks; }
  void cut_gather();
  void make_reduce(schedule::GemmReduce s);
  void cut_reduce();
  void cut_sums();
  void cut_copied();
  void cut_switched();
  void cut_shared();
  void cut_exchange();

  CallSpec spec_;
  int ranks_;
  int workers_;
  Index num_flags_ = 0;
  bool numbered_ = false;  ///< ReduceTiles::numbered()
  std::vector<Index> borders_;
  std::vector<GatherTiles> gather_;
  std::vector<ManyGatherTiles> many_gather_;
  std::vector<ReduceTiles> reduce_;
  std::vector<ManyReduceTiles> many_reduce_;
  std::vector<PairTiles> pairs_;
  std::vector<schedule::ReduceRows> sums_;
  std::vector<CopiedRows> copied_;
  std::vector<schedule::TileSums> switched_;
  std::vector<schedule::SharedTiles> shared_;
  std::vector<ExchangeCall> exchanges_;
  Cuts rows_;
  std::vector<Cuts> incoming_;
  std::vector<Cuts> in_, out_;  ///< only for collectives
};

}  // namespace tilelace::check
