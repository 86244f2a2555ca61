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
  double memory_gbps = 0;  ///< of its memory, by clock and bus; 0: the file does not say

  /// Whether times of the one are times of the other: memory rates may differ by a tenth, and count
  /// where both are known.
  [[nodiscard]] bool fits(const Machine&) const;
};

/// Of one kind of GPU, by GB/s; 0: not known, which fits all.
bool same_memory(double gbps, double other_gbps);

/// "sm_90a with 132 multiprocessors and 4800 GB/s of memory".
std::string said_of(const TunedDevice&);
/// Of a machine of GPUs.
TunedDevice device_of(const Machine&, const std::string& name);

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
  /// Its rows count, too, as far as there is no nearer one here; null: none.
  std::shared_ptr<const TuningTable> behind = nullptr;

  /// Whether its times are of such a machine, all of which calls may take.
  [[nodiscard]] bool fits(const Machine& machine) const { return device.fits(machine); }
  /// What ranks compare: of all tables one behind the other; 0: of none.
  [[nodiscard]] std::uint64_t digest_of_all() const;
};

/// Which kernels this build knows, and which generation of them: times of another set say nothing.
std::string kernel_set();

/// What a file's bytes say; `file` begins every error. Rows of a kernel set or of an architecture
/// that this build does not have are left out, with a note. Errors: usage (no JSON, another schema,
/// a field that is missing or makes no sense, a problem twice, a plan that is none). `machine`: of
/// a table that does not fit it no row is read.
std::shared_ptr<const TuningTable> tuning_of(const std::string& file, const std::string& bytes,
                                             const Machine* machine = nullptr);

}  // namespace tilelace::plan
