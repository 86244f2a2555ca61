// SPDX-License-Identifier: Apache-2.0
// A table of measured plans on its way into a file: read first, written anew with every row, so
// that tuning goes on where it was ended.
#pragma once
#include <filesystem>
#include <string>

#include "gpu.h"
#include "json_values.h"
#include "tilelace/plan.h"

namespace tilelace::cli {

/// What a row says beside its problem.
struct TunedTimes {
  double us = 0;            ///< of `plan`, the fastest
  double predicted_us = 0;  ///< of the planner's own choice, as measured
  std::size_t plans = 0;    ///< that were timed
};

class TuningFile {
 public:
  /// Of these GPUs. A file that is there is gone on with; one of other GPUs, or of another set of
  /// kernels, begins anew, which `note` says. Errors: usage (a file that is no table).
  TuningFile(std::filesystem::path file, const GpuFacts& gpus);

  [[nodiscard]] const std::string& note() const { return note_; }
  [[nodiscard]] std::size_t rows() const { return table_.at("rows").size(); }
  [[nodiscard]] bool has(const Problem&) const;
  /// In place of the problem's row, if there is one.
  void put(const Problem&, const Plan&, const TunedTimes&);
  /// Rows of another file that this one does not have. Errors: usage (no table, of other GPUs or
  /// kernels). Returns how many.
  std::size_t merge(const std::filesystem::path& other);
  /// The whole file, which is never half written. Errors: usage.
  void write() const;

 private:
  std::filesystem::path file_;
  Json table_;
  std::string note_;
};

}  // namespace tilelace::cli
