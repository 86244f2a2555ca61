// SPDX-License-Identifier: Apache-2.0
// A table of measured plans while its file is written (docs/tuning.md has its fields). Unknown
// fields of rows in an earlier file are kept.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "plan/tuning/tuning_table.h"

namespace tilelace::plan {

/// Fields of a row other than its problem and its plan.
struct TunedTimes {
  double us = 0;            ///< time of the row's plan
  double predicted_us = 0;  ///< measured time of the planner's own choice; 0: not timed
  std::size_t plans = 0;    ///< number of timed plans
  std::string commit = {};  ///< commit of the build
};

class TuningDraft {
 public:
  /// A table for these GPUs. `bytes`: an existing file, which is continued. If that is for other
  /// GPUs or another set of kernels, it is replaced, and `note` says so. Errors: usage (not a
  /// table).
  TuningDraft(std::string file, const TunedDevice& device, const std::string& bytes = "");
  TuningDraft(TuningDraft&&) noexcept;
  TuningDraft& operator=(TuningDraft&&) noexcept;
  ~TuningDraft();

  [[nodiscard]] const std::string& note() const { return note_; }
  [[nodiscard]] std::size_t rows() const;
  [[nodiscard]] bool has(const Problem&) const;
  /// Whether there is a row for the product with this build's kernels.
  [[nodiscard]] bool has(const GroupedProduct&) const;
  /// Adds a row, or replaces the problem's old row.
  void put(const Problem&, const Plan&, const TunedTimes&);
  /// Adds a row, or replaces the product's old row.
  void put(const GroupedProduct&, GroupedTiling, const TunedTimes&);
  /// Adds the rows of another file for problems that this table lacks, and returns their number.
  /// Errors: usage (not a table, or one for other GPUs or kernels).
  std::size_t merge(const std::string& other, const std::string& bytes);
  /// The text of the file, with one row per line.
  [[nodiscard]] std::string text() const;

 private:
  struct Json;
  std::string file_;
  std::unique_ptr<Json> table_;
  std::string note_;
};

}  // namespace tilelace::plan
