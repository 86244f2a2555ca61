// SPDX-License-Identifier: Apache-2.0
// What a collective took at a size, its rates as nccl-tests counts them, the table and the record.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collectives/work.h"
#include "table.h"

namespace tilelace::cli {

struct CollectiveTimes {
  Collective op{};
  int ranks = 1;
  std::int64_t bytes = 0;
  std::string plan;        ///< describe_collective's words
  std::vector<double> us;  ///< samples, of the slowest rank each
  /// Likewise; no samples of one that this machine does not have.
  std::map<std::string, std::vector<double>> baselines;
  std::string complaint;  ///< what was wrong, if anything

  [[nodiscard]] double time_us() const;
  [[nodiscard]] std::optional<double> time_us(const std::string& baseline) const;
  [[nodiscard]] std::optional<double> best_us() const;  ///< of the baselines
  [[nodiscard]] double spread() const;                  ///< p90 / p10
};

/// From rank 0 to whoever prints.
std::string to_text(const CollectiveTimes&);
CollectiveTimes collective_times_of(const std::string& text);

/// GB/s: bytes over time; and what links carry, so that ops and ranks can be compared (nccl-tests,
/// doc/PERFORMANCE.md): times 2 (n - 1) / n for all_reduce, (n - 1) / n for the others.
double algorithm_rate(std::int64_t bytes, double us);
double bus_rate(Collective, int ranks, std::int64_t bytes, double us);

/// A plan's words, few enough for the table.
std::string short_plan(std::string words);

/// Of one op.
Table collective_table(const std::vector<std::string>& baselines, int characters);
std::vector<std::string> collective_cells(const CollectiveTimes&,
                                          const std::vector<std::string>& baselines);
/// Geometric means of baseline / ours over all rows; empty without baselines.
std::string collective_means(const std::vector<CollectiveTimes>& rows,
                             const std::vector<std::string>& baselines);

/// "tilelace.collectives/1". `nccl`: the library's version, empty where none was asked.
std::string collective_record(const CollectiveWork&, const CollectiveTimes&,
                              const std::string& nccl);

}  // namespace tilelace::cli
