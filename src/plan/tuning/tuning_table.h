// SPDX-License-Identifier: Apache-2.0
// A table of measured plans: the fastest plan of each problem on one kind of GPU. Its file is JSON
// (fields in docs/tuning.md).
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/grouped_product.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// The largest size of a table's file, in bytes.
inline constexpr std::size_t kMostTuningBytes = std::size_t{64} << 20U;

/// The GPUs that were measured. The name is only for readers; the other fields are compared.
struct TunedDevice {
  std::string name;
  std::string architecture;  ///< name in kArchitectures
  int multiprocessors = 0;
  double memory_gbps = 0;  ///< memory rate, from clock and bus width; 0: unknown

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
  Problem problem;  ///< only the fields that plans depend on: op, ranks, m, n, k, dtype, swiglu
  Plan plan;        ///< the row's plan, including Plan::kernel
  std::string kind;
  double us = 0;
};

/// The fastest tiles for one rank's product grouped by expert.
struct TunedTiles {
  GroupedProduct product;
  GroupedShape shape;
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
  /// rows are equally near, the row of the earliest table in the chain is used.
  std::shared_ptr<const TuningTable> behind = nullptr;

  /// Whether the table's times are valid for this machine. For a share of a GPU they never are.
  [[nodiscard]] bool fits(const Machine& machine) const { return device.fits(machine); }
  /// Hash of this table and all tables chained after it, to be compared between ranks.
  [[nodiscard]] std::uint64_t digest_of_all() const;
};

/// Version of the kernels of each of an architecture's tiles, by the tile's name. Times of a tile's
/// other version are not valid; a tile more or less changes nothing for rows of the others.
std::map<std::string, std::string> kernel_set(int architecture);
/// Version of the kernels for products grouped by expert with these tiles. Each row of such a
/// product contains it.
std::string grouped_kernels(const GroupedShape&);

/// Parses a file's `bytes`; every error text begins with `file`. Rows of kernels that have changed
/// or of an unknown architecture are left out, with a note. If the table does not fit `machine`, no
/// row is read. Errors: usage (no JSON, another schema, a missing or invalid field, two rows for
/// one problem, an invalid plan).
std::shared_ptr<const TuningTable> tuning_of(const std::string& file, const std::string& bytes,
                                             const Machine* machine = nullptr);

}  // namespace tilelace::plan
