// SPDX-License-Identifier: Apache-2.0
#include "plan/ag_gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "core/check.h"
#include "plan/gemm_cost.h"
#include "plan/problem.h"
#include "plan/schedules.h"
#include "schedule/gather_order.h"

namespace tilelace::plan {
namespace {

using schedule::Index;

// Measured on H200s over NVLink (docs/decisions/0006).
constexpr double kCopyBytesPerUs = 370e3;
constexpr double kCopyStartUs = 9;
constexpr double kPushBytesPerUs = 200e3;
constexpr double kPushStartUs = 5;
constexpr double kEnterUs = 3;

constexpr Index kLeastCopy = 4 << 20;  ///< bytes; smaller copies do not reach the link's rate
constexpr Index kMostPushRows = 1024;  ///< of all ranks; beyond that copy engines are better
constexpr Index kPushChunk = 16 << 10;
constexpr Index kMostChunks = 64;

bool can_gather(const GemmTile& t) {
#define TILELACE_GEMM_NAME(tile, ...) t.name == #tile ||
  return !(TILELACE_GEMM_TALL_ALONE(TILELACE_GEMM_NAME) false);
#undef TILELACE_GEMM_NAME
}

class Candidates {
 public:
  Candidates(const Problem& p, const GemmMachine& machine) : p_(p), borders_(borders_of(p)) {
    const schedule::RowSplit split = split_of(p, borders_);
    most_rows_ = split.max_rows();
    row_bytes_ = p.k * static_cast<Index>(size_of(p.dtype));
    scale_ = static_cast<double>(p.total_n()) / static_cast<double>(p.n.front());
    for (const GemmPlan& gemm : gemm_candidates({p.m, p.n.front(), p.k, p.dtype}, machine)) {
      if (!can_gather(gemm.tile)) continue;
      if (!gemm.tile.swapped && gemm.split_tiles == 0) add_by_shard(gemm, split);
      if (p.m <= kMostPushRows) add_whole(gemm);
    }
  }

  std::vector<AgGemmPlan> sorted() {
    std::stable_sort(plans_.begin(), plans_.end(), [](const AgGemmPlan& a, const AgGemmPlan& b) {
      return a.predicted_us < b.predicted_us;
    });
    return std::move(plans_);
  }

 private:
  void add(AgGemmPlan plan, double us) {
    plan.predicted_us = us + kEnterUs;
    plans_.push_back(plan);
  }

  void add_by_shard(const GemmPlan& gemm, const schedule::RowSplit& split) {
    const Index rows = gemm.tile.worker_rows();
    const Index tiles = tile_rows_by_shard(split, rows);
    const double us = gemm.predicted_us * scale_ * static_cast<double>(tiles) /
                      static_cast<double>(schedule::ceil_div(p_.m, rows));
    const double own = us / p_.ranks;
    for (const Index parts : {1, 2, 4}) {
      const Index chunk = schedule::max_of(1, schedule::ceil_div(most_rows_, parts));
      if (parts > 1 && chunk * row_bytes_ < kLeastCopy) break;
      const double first = kCopyStartUs + static_cast<double>(chunk * row_bytes_) / kCopyBytesPerUs;
      const double wire =
          kCopyStartUs + 2.0 * static_cast<double>(parts * p_.ranks) +
          static_cast<double>(most_rows_ * row_bytes_) * (p_.ranks - 1) / kCopyBytesPerUs;
      add({gemm, false, Transport::push, chunk, 1}, us + reread_us(1) + std::max(0.0, wire - own));
      if (p_.ranks == 2) continue;
      add({gemm, false, Transport::push, chunk, p_.ranks},
          std::max(us + reread_us(p_.ranks) + std::max(0.0, first - own), wire + own));
    }
    if (p_.m <= kMostPushRows) add({gemm, false, Transport::store, push_chunk(), 1}, us + pushed());
  }

  void add_whole(const GemmPlan& gemm) {
    add({gemm, true, Transport::store, push_chunk()}, gemm.predicted_us * scale_ + pushed());
  }

  /// What reading weights again costs, for every walk over them more than the product alone takes.
  [[nodiscard]] double reread_us(int apart) const {
    const auto reads = [](Index rows) { return schedule::ceil_div(rows, kWalkRows); };
    Index count = apart * reads(most_rows_);
    if (apart < p_.ranks) count += reads(p_.m - apart * most_rows_);
    const Index more = count - reads(p_.m);
    return scale_ * static_cast<double>(more * p_.n.front() * row_bytes_) * kRereadUsPerByte;
  }

  [[nodiscard]] Index push_chunk() const {
    const Index rows = std::max<Index>(1, kPushChunk / row_bytes_);
    return std::max(rows, schedule::ceil_div(most_rows_, kMostChunks));
  }
  [[nodiscard]] double pushed() const {
    return kPushStartUs +
           static_cast<double>(most_rows_ * row_bytes_) * (p_.ranks - 1) / kPushBytesPerUs;
  }

  const Problem& p_;
  std::vector<Index> borders_;
  Index most_rows_ = 0;  ///< of a shard
  Index row_bytes_ = 1;
  double scale_ = 0;  ///< all weights against the first
  std::vector<AgGemmPlan> plans_;
};

}  // namespace

std::string describe(const AgGemmPlan& plan) {
  return fmt::format("{}, {}, chunks of {} rows; {}",
                     plan.whole ? "whole" : fmt::format("by shard, {} apart", plan.apart),
                     plan.transport == Transport::push ? "copy engine" : "push kernel",
                     plan.chunk_rows, describe(plan.gemm));
}

std::ostream& operator<<(std::ostream& out, const AgGemmPlan& plan) {
  return out << describe(plan);
}

std::vector<AgGemmPlan> ag_gemm_candidates(const Problem& problem, const GemmMachine& machine) {
  require(problem.op == Op::ag_gemm, "ag_gemm: op, got {}, expected ag_gemm", name_of(problem.op));
  check_problem(problem);
  require(problem.m > 0, "ag_gemm: m, got 0, expected rows to plan for");
  require(problem.ranks <= schedule::kMaxSections, "ag_gemm: ranks, got {}, expected at most {}",
          problem.ranks, schedule::kMaxSections);
  return Candidates(problem, machine).sorted();
}

double gather_us(const Problem& p, Transport transport) {
  const std::vector<Index> borders = borders_of(p);
  const schedule::RowSplit split = split_of(p, borders);
  const double bytes = static_cast<double>(split.max_rows() * p.k) *
                       static_cast<double>(size_of(p.dtype)) * (p.ranks - 1);
  if (transport == Transport::store) return kEnterUs + kPushStartUs + bytes / kPushBytesPerUs;
  return kEnterUs + kCopyStartUs + 2.0 * p.ranks + bytes / kCopyBytesPerUs;
}

}  // namespace tilelace::plan
