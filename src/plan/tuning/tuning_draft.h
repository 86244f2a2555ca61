// SPDX-License-Identifier: Apache-2.0
// A table of measured plans that is being written (docs/tuning.md lists the file's fields). Rows
// of an existing file keep the fields that this build does not know.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "plan/tuning/tuning_table.h"

namespace tilelace::plan {

/// Fields of a row other than its problem and its plan.
struct TunedTimes {
  double us = 0;            ///< time of the row's plan
  double predicted_us = 0;  ///< measured time of the plan predicted fastest; 0: not timed
  std::size_t plans = 0;    ///< number of timed plans
  std::string commit = {};  ///< commit of the build, or the library's version
};

class TuningDraft {
 public:
  /// A table for these GPUs. `bytes`: content of an existing file, whose rows the table keeps. If
  /// that file is for other GPUs or of an earlier release, the table begins empty; rows of kernels
  /// that have changed are left out. note() says so. Errors: usage (not a table).
  TuningDraft(std::string file, const TunedDevice& device, const std::string& bytes = "");
  TuningDraft(TuningDraft&&) noexcept;
  TuningDraft& operator=(TuningDraft&&) noexcept;
  ~TuningDraft();

  [[nodiscard]] const std::string& note() const { return note_; }
  [[nodiscard]] bool is_anew() const { return anew_; }
  [[nodiscard]] std::size_t rows() const;
  [[nodiscard]] bool has(const Problem&) const;
  /// Whether the product has a row that was timed with this build's kernels.
  [[nodiscard]] bool has(const GroupedProduct&) const;
  /// Adds a row, or replaces the problem's old row.
  void put(const Problem&, const Plan&, const TunedTimes&);
  /// Adds a row, or replaces the product's old row.
  void put(const GroupedProduct&, const GroupedShape&, const TunedTimes&);
  /// Adds another file's rows for problems that this table lacks, and returns how many it added.
  /// Errors: usage (not a table, or one for other GPUs or kernels).
  std::size_t merge(const std::string& other, const std::string& bytes);
  /// The text of the file, with one row per line.
  [[nodiscard]] std::string text() const;

 private:
  struct Json;
  std::string file_;
  int architecture_;
  std::unique_ptr<Json> table_;
  std::string note_;
  bool anew_ = false;
};

}  // namespace tilelace::plan
