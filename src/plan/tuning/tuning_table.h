// SPDX-License-Identifier: Apache-2.0
// A table of measured plans: the fastest plan of each problem on one kind of GPU. Its file is JSON
// (fields in docs/tuning.md).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/grouped_product.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// The most bytes of a table's file.
inline constexpr std::size_t kMostTuningBytes = std::size_t{64} << 20U;

/// The GPUs that were measured. The name is only for readers; the other fields are compared.
struct TunedDevice {
  std::string name;
  std::string architecture;  ///< name in kArchitectures
  int multiprocessors = 0;
  double memory_gbps = 0;  ///< rate of its memory, from clock and bus width; 0: unknown

  /// Whether times of this device are valid for the machine. Memory rates may differ by a tenth;
  /// they are compared if both are known.
  [[nodiscard]] bool fits(const Machine&) const;
};

/// Whether one kind of GPU can have both memory rates (GB/s). An unknown rate, 0, fits any rate.
bool same_memory(double gbps, double other_gbps);

/// The device as text: "sm_90a with 132 multiprocessors and 4800 GB/s of memory".
std::string said_of(const TunedDevice&);
/// The kind of GPU that a machine has.
TunedDevice device_of(const Machine&, const std::string& name);

struct TunedRow {
  Problem problem;  ///< only what plans depend on: op, ranks, m, n, k, dtype, whether swiglu
  Plan plan;        ///< the row's plan, with its kernel
  std::string kind;
  double us = 0;
};

/// The fastest tiles of one rank's product grouped by expert.
struct TunedTiles {
  GroupedProduct product;
  GroupedTiling tiling{};
  double us = 0;
};

class TuningTable {
 public:
  std::string file;
  TunedDevice device;
  std::vector<TunedRow> rows;            ///< a row per problem
  std::vector<TunedTiles> grouped = {};  ///< a row per product
  std::vector<std::string> notes;        ///< what was ignored in the file, and why
  std::uint64_t digest = 0;              ///< hash of the file's bytes
  /// The next table of the chain; null: none. The nearest row of all tables is used; if several
  /// rows are equally near, the one in the first of their tables.
  std::shared_ptr<const TuningTable> behind = nullptr;

  /// Whether the table's times are valid for this machine; never for a share of a GPU.
  [[nodiscard]] bool fits(const Machine& machine) const { return device.fits(machine); }
  /// Hash of this table and all tables chained after it, to be compared between ranks.
  [[nodiscard]] std::uint64_t digest_of_all() const;
};

/// Version of this build's set of kernels. Times of another set are not valid.
std::string kernel_set();
/// The same for products grouped by expert. Each row of such a product contains the version.
std::string grouped_kernel_set();

/// The tiling that has this name, if any.
std::optional<GroupedTiling> tiling_named(std::string_view);

/// Parses a file's `bytes`; every error text begins with `file`. Rows of another set of kernels or
/// an unknown architecture are left out, with a note. Errors: usage (no JSON, another schema, a
/// missing or invalid field, a problem twice, an invalid plan). `machine`: if the table does not
/// fit it, no row is read.
std::shared_ptr<const TuningTable> tuning_of(const std::string& file, const std::string& bytes,
                                             const Machine* machine = nullptr);

}  // namespace tilelace::plan
