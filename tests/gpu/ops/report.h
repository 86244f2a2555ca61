// SPDX-License-Identifier: Apache-2.0
// What the ranks found, put together: lines while it runs, JSON lines, a table.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "harness.h"
#include "ops/cases.h"
#include "ops/conformance.h"
#include "ops/stress.h"

namespace tilelace::gpu_test {

struct LongRun {
  std::string op;  ///< its name, or "turns"
  DType dtype = DType::bf16;
  std::string kind;  ///< of plans
  Pace pace = Pace::eager;
  int communicators = 1;  ///< on streams of their own, at once
  int communicator = 0;   ///< the one that this is about
};

class Report {
 public:
  /// Error: usage (no file to write). `drop`: what is found wrong is right, and the other way
  /// round.
  Report(int ranks, std::uint64_t seed, bool drop, const std::string& json, std::string commit);

  /// From any rank's thread.
  void add(const Case& c, const Tally& t);
  /// From rank 0, when all ranks are through with the cases of a type.
  void conclude(Op op, DType dtype, const std::vector<Case>& cases);
  /// From rank 0; `troubles`: of all ranks.
  void add(const LongRun& run, const StressResult& r, const std::vector<std::string>& troubles);
  /// The table; the program's exit code.
  [[nodiscard]] int print() const;

 private:
  /// Of the case that comes closest to its limit.
  struct Worst {
    double error = 0, limit = 0;
  };
  [[nodiscard]] Json head(const char* schema, std::string_view op, DType dtype) const;

  int ranks_;
  std::uint64_t seed_;
  bool drop_;
  std::string commit_;
  JsonLines json_;
  std::mutex mutex_;
  std::vector<std::string> rows_;
  int calls_ = 0, missed_ = 0, wrong_ = 0, lines_ = 0, eager_ = 0;
  std::map<std::string, Worst> worst_;  ///< by kind of plan
  bool bad_ = false;
};

}  // namespace tilelace::gpu_test
