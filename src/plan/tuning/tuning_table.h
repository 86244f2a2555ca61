// SPDX-License-Identifier: Apache-2.0
// Plans that were measured, as data: which was the fastest for a problem on GPUs of one kind. A
// file of JSON (docs/tuning.md has its fields).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tilelace/plan.h"

namespace tilelace::plan {

/// No table is larger.
inline constexpr std::size_t kMostTuningBytes = std::size_t{64} << 20U;

/// Whose times they are. The name is for people: what counts is behind it.
struct TunedDevice {
  std::string name;
  std::string architecture;  ///< as kArchitectures names it
  int multiprocessors = 0;
};

struct TunedRow {
  Problem problem;  ///< op, ranks, m, n, k, dtype and activation swiglu: what plans depend on
  Plan plan;        ///< with its kernel
  std::string kind;
  double us = 0;
};

class TuningTable {
 public:
  std::string file;
  TunedDevice device;
  std::vector<TunedRow> rows;      ///< of problems that differ
  std::vector<std::string> notes;  ///< what of the file is not used, and why
  std::uint64_t digest = 0;        ///< of the file's bytes

  /// Whether its times are of such a machine.
  [[nodiscard]] bool fits(const Machine&) const;
};

/// Which kernels this build knows, and which generation of them: times of another set say nothing.
std::string kernel_set();

/// What a file's bytes say; `file` begins every error. Rows of a kernel set or of an architecture
/// that this build does not have are left out, with a note. Errors: usage (no JSON, another schema,
/// a field that is missing or makes no sense, a problem twice, a plan that is none).
std::shared_ptr<const TuningTable> tuning_of(const std::string& file, const std::string& bytes);

/// The table that was given, else the one that TILELACE_TUNING names, if any. Errors: as
/// read_tuning.
std::shared_ptr<const TuningTable> or_of_environment(std::shared_ptr<const TuningTable> given);

}  // namespace tilelace::plan
