// SPDX-License-Identifier: Apache-2.0
// A table of measured plans in a file. It is read first and written after every row, so that tuning
// can be interrupted and continued.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "gpu.h"
#include "plan/tuning/tuning_draft.h"
#include "tilelace/plan.h"

namespace tilelace::cli {

using plan::TunedTimes;

/// Options of `tune` that concern the table's files and the timing.
struct TuneRequest {
  std::string out = "tilelace-tuning.json";
  std::vector<std::string> merge;
  double minutes = 8;
  bool again = false, force = false;
};

class TuningFile {
 public:
  /// A table for these GPUs. An existing file is continued, without rows of kernels that have
  /// changed; if it is for other GPUs or of an earlier release, the table starts empty. `note` says
  /// so. Errors: usage (a file that is not a table).
  TuningFile(std::filesystem::path file, const GpuFacts& gpus);
  TuningFile(std::filesystem::path file, const plan::TunedDevice& device);

  [[nodiscard]] const std::string& note() const { return table_.note(); }
  [[nodiscard]] std::size_t rows() const { return table_.rows(); }
  [[nodiscard]] bool has(const Problem& p) const { return table_.has(p); }
  [[nodiscard]] bool has(const plan::GroupedProduct& p) const { return table_.has(p); }
  /// Adds a row, or replaces the problem's old row.
  void put(const Problem&, const Plan&, TunedTimes);
  /// The same for a product of experts, with its fastest tiles.
  void put(const plan::GroupedProduct&, const plan::GroupedShape& tiles, TunedTimes);
  /// Adds the rows of `other` whose problems this table lacks. Returns the number of added rows.
  /// Errors: usage (not a table, or one for other GPUs or kernels).
  std::size_t merge(const std::filesystem::path& other);
  /// Writes the whole file; it is never half written. Errors: usage.
  void write() const;

 private:
  std::filesystem::path file_;
  plan::TuningDraft table_;
};

/// Opens the file `out` of the request and merges the files `merge` into its table; prints what was
/// merged. Errors: those of TuningFile.
TuningFile open_table(const TuneRequest&, const GpuFacts& gpus);

/// Merges the request's files `merge`, which must be for one model of GPU, into the file `out`.
/// Needs no GPU. Errors: those of TuningFile.
void merge_tables(const TuneRequest&);

/// Counts what was tuned, for the last lines of the output.
class TuneTally {
 public:
  /// us: the fastest plan's time; standard_us: time of the choice without a table, 0: not timed.
  void add(double us, double standard_us);
  void print(std::ptrdiff_t wanted, const TuningFile&, const std::string& out) const;

 private:
  int done_ = 0;
  double gains_ = 0;
};

/// Sets machine.tuning to the tables that calls of `ranks` GPU ranks would use. `file`: a table's
/// file; "off": no tables; empty: the tables that calls find by themselves. Prints which tables and
/// rows are ignored, and why. Errors: usage (a file that is not a table).
void take_tables(const std::string& file, int ranks, Machine&);

}  // namespace tilelace::cli
