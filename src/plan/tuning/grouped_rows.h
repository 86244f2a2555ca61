// SPDX-License-Identifier: Apache-2.0
// Rows of a tuning table that say which tiles a product grouped by expert takes.
#pragma once
#include <string_view>

#include "plan/tuning/table_fields.h"
#include "plan/tuning/tuning_table.h"

namespace tilelace::plan {

/// The value of the field `op` in such rows.
inline constexpr std::string_view kGroupedOp = "grouped_gemm";

/// Whether a row is for a grouped product. Errors: usage (op is missing or not a text).
bool is_grouped(const TableFields& row);
/// Adds the row to the table, whose architecture must be known; if its dtype is unknown or the
/// architecture has no kernels for experts, adds only a note. False: the row was left out because
/// it was timed with other kernels. Errors: usage (a field is missing or invalid; the product has a
/// row already).
[[nodiscard]] bool take_grouped(const TableFields& row, TuningTable&);

}  // namespace tilelace::plan
