// SPDX-License-Identifier: Apache-2.0
// Collects the ranks' results: prints lines while tests run, JSON lines, and a table.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "harness.h"
#include "json_lines.h"
#include "ops/cases.h"
#include "ops/conformance.h"
#include "ops/stress.h"

namespace tilelace::gpu_test {

struct LongRun {
  std::string op;  ///< the op's name, or "turns" if the ops take turns
  DType dtype = DType::bf16;
  std::string kind;  ///< kind of plans
  Pace pace = Pace::eager;
  int communicators = 1;  ///< number of communicators that run at once, each on its own stream
  int communicator = 0;   ///< index of the communicator that this run reports
};

class Report {
 public:
  /// `drop`: a wrong result counts as right, and a right one as wrong. Error: usage (the file
  /// cannot be written).
  Report(int ranks, std::uint64_t seed, bool drop, const std::string& json, std::string commit);

  /// Called by any rank's thread.
  void add(const Case& c, const Tally& t);
  /// Called by rank 0 when all ranks have finished the cases of a type.
  void conclude(Op op, DType dtype, const std::vector<Case>& cases);
  /// Called by rank 0. `troubles`: one text per rank.
  void add(const LongRun& run, const StressResult& r, const std::vector<std::string>& troubles);
  /// Prints the table and returns the program's exit code.
  [[nodiscard]] int print() const;

 private:
  [[nodiscard]] Json head(const char* schema, std::string_view op, DType dtype) const;

  int ranks_;
  std::uint64_t seed_;
  bool drop_;
  std::string commit_;
  JsonLines json_;
  std::mutex mutex_;
  std::vector<std::string> rows_;
  int calls_ = 0, missed_ = 0, wrong_ = 0, lines_ = 0, eager_ = 0;
  std::map<std::string, double> worst_;  ///< by kind: the largest error
  bool bad_ = false;
};

}  // namespace tilelace::gpu_test
