// SPDX-License-Identifier: Apache-2.0
// A table of measured plans on its way into a file (docs/tuning.md has its fields). What a row of
// an earlier file says beyond what is known here stays.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include "plan/tuning/tuning_table.h"

namespace tilelace::plan {

/// What a row says beside its problem and its plan.
struct TunedTimes {
  double us = 0;            ///< of the plan, the fastest
  double predicted_us = 0;  ///< of the planner's own choice, as measured; 0: it was not
  std::size_t plans = 0;    ///< that were timed
  std::string commit = {};  ///< of the build
};

class TuningDraft {
 public:
  /// Of these GPUs. `bytes`: of the file as it is, to be gone on with; one of other GPUs, or of
  /// another set of kernels, begins anew, which `note` says. Errors: usage (no table).
  TuningDraft(std::string file, const TunedDevice& device, const std::string& bytes = "");
  TuningDraft(TuningDraft&&) noexcept;
  TuningDraft& operator=(TuningDraft&&) noexcept;
  ~TuningDraft();

  [[nodiscard]] const std::string& note() const { return note_; }
  [[nodiscard]] std::size_t rows() const;
  [[nodiscard]] bool has(const Problem&) const;
  /// In place of the problem's row, if there is one.
  void put(const Problem&, const Plan&, const TunedTimes&);
  /// Rows of another file that this one does not have. Errors: usage (no table, of other GPUs or
  /// kernels). Returns how many.
  std::size_t merge(const std::string& other, const std::string& bytes);
  /// The whole file, a row a line.
  [[nodiscard]] std::string text() const;

 private:
  struct Json;
  std::string file_;
  std::unique_ptr<Json> table_;
  std::string note_;
};

}  // namespace tilelace::plan
