// SPDX-License-Identifier: Apache-2.0
// Measured times of a collective at one size, its rates as nccl-tests defines them, and how they
// are printed and recorded.
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
  std::string plan;        ///< as describe_collective prints it
  std::vector<double> us;  ///< samples; each is the time of the slowest rank
  /// Samples of each baseline, by its name; empty for a baseline that this machine lacks.
  std::map<std::string, std::vector<double>> baselines;
  std::string complaint;  ///< what was wrong, if anything

  [[nodiscard]] double time_us() const;
  [[nodiscard]] std::optional<double> time_us(const std::string& baseline) const;
  [[nodiscard]] std::optional<double> best_us() const;  ///< median of the fastest baseline
  [[nodiscard]] double spread() const;                  ///< p90 / p10
};

/// These convert times to and from the text that rank 0 sends to the process that prints.
std::string to_text(const CollectiveTimes&);
CollectiveTimes collective_times_of(const std::string& text);

/// Rates in GB/s, defined as in nccl-tests (doc/PERFORMANCE.md). algorithm_rate is bytes / time.
/// With n ranks, bus_rate is algorithm_rate * 2 (n - 1) / n for all_reduce, and
/// algorithm_rate * (n - 1) / n for the other collectives.
double algorithm_rate(std::int64_t bytes, double us);
double bus_rate(Collective, int ranks, std::int64_t bytes, double us);

/// A plan's text, shortened to fit the table.
std::string short_plan(std::string words);

/// The table of one collective.
Table collective_table(const std::vector<std::string>& baselines, int characters);
std::vector<std::string> collective_cells(const CollectiveTimes&,
                                          const std::vector<std::string>& baselines);
/// A line with the geometric mean of (time of baseline / our time) for each baseline, if any.
std::string collective_means(const std::vector<CollectiveTimes>& rows,
                             const std::vector<std::string>& baselines);

/// A record of schema "tilelace.collectives/1". `nccl`: version of the NCCL library; empty if no
/// baseline was asked for.
std::string collective_record(const CollectiveWork&, const CollectiveTimes&,
                              const std::string& nccl);

}  // namespace tilelace::cli
