// SPDX-License-Identifier: Apache-2.0
// A table of measured plans on its way into a file: read first, written anew with every row, so
// that tuning goes on where it was ended.
#pragma once
#include <filesystem>
#include <string>

#include "gpu.h"
#include "plan/tuning/tuning_draft.h"
#include "tilelace/plan.h"

namespace tilelace::cli {

using plan::TunedTimes;

class TuningFile {
 public:
  /// Of these GPUs. A file that is there is gone on with; one of other GPUs, or of another set of
  /// kernels, begins anew, which `note` says. Errors: usage (a file that is no table).
  TuningFile(std::filesystem::path file, const GpuFacts& gpus);

  [[nodiscard]] const std::string& note() const { return table_.note(); }
  [[nodiscard]] std::size_t rows() const { return table_.rows(); }
  [[nodiscard]] bool has(const Problem& p) const { return table_.has(p); }
  /// In place of the problem's row, if there is one.
  void put(const Problem&, const Plan&, TunedTimes);
  /// Rows of another file that this one does not have. Errors: usage (no table, of other GPUs or
  /// kernels). Returns how many.
  std::size_t merge(const std::filesystem::path& other);
  /// The whole file, which is never half written. Errors: usage.
  void write() const;

 private:
  std::filesystem::path file_;
  plan::TuningDraft table_;
};

}  // namespace tilelace::cli
