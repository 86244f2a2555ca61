// SPDX-License-Identifier: Apache-2.0
// One call as the checker sees it: its description, every rank's schedule, and how its memory is
// cut into cells.
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

/// How a kernel walks the tiles of a fused ag_gemm or gemm_rs that does not straddle
/// (schedule/gather_tiles.h, reduce_tiles.h). As it stands: as CPU ranks do.
struct WalkSpec {
  int apart = -1;               ///< by shard: shards that are walked one after the other; -1: all
  std::vector<int> joins = {};  ///< apart 0: tiles behind which each peer's shard joins, in order
  bool whole = false;           ///< ag_gemm: tiles as if all rows were one matrix; transport store
  bool across = false;          ///< of a whole walk: its rows are columns of the result
  std::vector<int> weights = {};  ///< of a whole walk: columns of each; empty: one has all
  bool together = false;          ///< gemm_rs: remote shards
  bool pairs = false;             ///< gemm_rs: of two shards
  bool along_cols = false;
  int wide = 1 << 20, deep = 1;  ///< of a block: schedule::GemmOrder

  bool operator==(const WalkSpec&) const = default;
};

struct CallSpec {
  Op op = {};
  std::int64_t m = 0;
  std::vector<std::int64_t> rows;  ///< of each shard; empty: even, remainder first
  std::int64_t cols = 1;           ///< ag_gemm: 0 is the gather alone
  int tile_m = 128;
  std::int64_t chunk_rows = 128;
  int raster_group = 1;
  RouteKind route = RouteKind::mesh;
  int local = 1;  ///< two_level: ranks of one node
  Transport transport = {};
  bool straddle = false;
  int blocks = 1;
  bool deliver = false;
  std::int64_t block_grain = 1;  ///< gemm_ar: rows that super-blocks are multiples of
  /// gemm_rs, gemm_ar: sums behind the product (schedule/reduce_rows.h), a row a unit. Transport
  /// pull, or store: sums are shared; those that are pushed are collectives. Tiles do not count,
  /// the product is one step.
  bool unfused = false;
  /// Of an unfused gemm_rs: partials are handed to their owners so (schedule/hand_rows.h);
  /// transport and route do not count.
  std::optional<schedule::HandWay> hand;
  int shots = 1;        ///< multimem: 2: sums are shared
  bool direct = false;  ///< multimem in two shots: sums go to where peers want them
  /// Of a fused gemm_ar as GPUs have it (schedule/share_tiles.h): columns by which own tiles come
  /// behind the others; 0: other calls. Transport store; `blocks` are a shard's.
  int lag = 0;
  bool by_columns = false;  ///< likewise: owners have columns of all rows, in one block
  WalkSpec walk;
  /// A collective: nothing above counts.
  std::optional<ExchangeSpec> exchange = {};

  bool operator==(const CallSpec&) const = default;
};

std::string to_string(const CallSpec&);
/// Of the op or the collective.
std::string_view name_of(const CallSpec&);
std::ostream& operator<<(std::ostream&, const CallSpec&);

/// What a backend's own schedule is, so that CallPlan(spec_of(s), s.ranks(), s.workers) equals it.
CallSpec spec_of(const schedule::AgGemm&);
CallSpec spec_of(const schedule::GemmReduce&);

/// Why no schedule exists for this, or nothing.
std::optional<std::string> legal(const CallSpec&, int ranks);

/// The fewest actors of a rank that must be able to run at a time. Copies of ag_gemm wait for
/// copies only. In all else workers wait for what other workers hand over, so all must be there.
int min_resident(const CallSpec&, int workers);

/// How many workers of a rank find a place before the copy role does.
int launched_first(const CallSpec&, int workers);

/// Rows of a region, cut where any tile or chunk begins: accesses cover whole cells.
class Cuts {
 public:
  explicit Cuts(Index rows);
  void mark(RowRange rows);
  void close();
  [[nodiscard]] Index cells() const { return static_cast<Index>(begins_.size()) - 1; }
  /// First cell at or after this row.
  [[nodiscard]] Index cell(Index row) const { return cell_[static_cast<std::size_t>(row)]; }
  [[nodiscard]] bool aligned(RowRange rows) const;
  [[nodiscard]] RowRange rows(Index cell) const;
  [[nodiscard]] Index num_rows() const { return static_cast<Index>(cell_.size()) - 1; }

 private:
  std::vector<std::int32_t> cell_;
  std::vector<Index> begins_;
};

/// Kernels' own orders, and those of more ranks than kernels have.
using GatherTiles = schedule::GatherTiles<schedule::GatherOrder>;
using ReduceTiles = schedule::ReduceTiles<schedule::ReduceOrder>;
using PairTiles = schedule::ReduceTiles<schedule::PairOrder>;
using ManyGatherTiles = schedule::GatherTiles<schedule::GatherOrderOf<kMaxCheckedRanks>>;
using ManyReduceTiles = schedule::ReduceTiles<schedule::ReduceOrderOf<kMaxCheckedRanks>>;

/// Immutable once made; shared by all calls of the same spec.
class CallPlan {
 public:
  /// Throws a usage error unless legal.
  CallPlan(const CallSpec& spec, int ranks, int workers);
  CallPlan(const CallPlan&) = delete;
  CallPlan& operator=(const CallPlan&) = delete;

  [[nodiscard]] const CallSpec& spec() const { return spec_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] int workers() const { return workers_; }
  [[nodiscard]] Index num_flags() const { return num_flags_; }
  [[nodiscard]] FlagName flag(int rank, Index flag) const;
  /// Rows that this rank's result must have.
  [[nodiscard]] RowRange result_rows(int rank) const;
  [[nodiscard]] RowRange shard(int rank) const {
    return spec_.exchange ? result_rows(rank) : split().shard(rank);
  }

  /// Calls f(schedule of this rank), for calls of AgGemm and GemmReduce: not unfused ones, not by
  /// multimem, without lag.
  template <class F>
  decltype(auto) visit(int rank, F&& f) const {
    const auto r = static_cast<std::size_t>(rank);
    if (row_of(spec_.op).gathers) return few() ? f(gather_.at(r)) : f(many_gather_.at(r));
    if (spec_.walk.pairs) return f(pairs_.at(r));
    return few() ? f(reduce_.at(r)) : f(many_reduce_.at(r));
  }
  /// Of a call by multimem.
  [[nodiscard]] const schedule::TileSums& switched(int rank) const {
    return switched_.at(static_cast<std::size_t>(rank));
  }
  /// Of a call with lag.
  [[nodiscard]] const schedule::SharedTiles& shared(int rank) const {
    return shared_.at(static_cast<std::size_t>(rank));
  }
  /// Of a collective.
  [[nodiscard]] const ExchangeCall& exchange(int rank) const {
    return exchanges_.at(static_cast<std::size_t>(rank));
  }
  /// Units that carry epochs, at each rank.
  [[nodiscard]] Index num_lines() const;
  /// The same for all calls.
  template <class F>
  decltype(auto) visit_any(int rank, F&& f) const {
    const auto r = static_cast<std::size_t>(rank);
    if (spec_.exchange) return f(exchanges_[r]);
    if (row_of(spec_.transport).needs_multicast()) return f(switched_[r]);
    if (spec_.lag > 0) return f(shared_[r]);
    if (!spec_.unfused) return visit(rank, f);
    return spec_.hand ? f(handed_[r]) : f(sums_[r]);
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
  void cut_handed();
  void cut_switched();
  void cut_shared();
  void cut_exchange();

  CallSpec spec_;
  int ranks_;
  int workers_;
  Index num_flags_ = 0;
  bool numbered_ = false;  ///< partials are
  std::vector<Index> borders_;
  std::vector<GatherTiles> gather_;
  std::vector<ManyGatherTiles> many_gather_;
  std::vector<ReduceTiles> reduce_;
  std::vector<ManyReduceTiles> many_reduce_;
  std::vector<PairTiles> pairs_;
  std::vector<schedule::ReduceRows> sums_;
  std::vector<schedule::HandRows> handed_;
  std::vector<schedule::TileSums> switched_;
  std::vector<schedule::SharedTiles> shared_;
  std::vector<ExchangeCall> exchanges_;
  Cuts rows_;
  std::vector<Cuts> incoming_;
  std::vector<Cuts> in_, out_;  ///< of collectives
};

}  // namespace tilelace::check
