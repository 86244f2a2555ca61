// SPDX-License-Identifier: Apache-2.0
// Rows of a table that have the tiles of products grouped by expert.
#pragma once
#include <string_view>

#include "plan/tuning/table_fields.h"
#include "plan/tuning/tuning_table.h"

namespace tilelace::plan {

/// The `op` of such a row.
inline constexpr std::string_view kGroupedOp = "grouped_gemm";

/// Errors: usage (op is missing or no text).
bool is_grouped(const TableFields& row);
/// Adds the row to the table; of an unknown type or other kernels: adds a note. Errors: usage (a
/// field is missing or invalid; the product has a row already).
void take_grouped(const TableFields& row, TuningTable&);

}  // namespace tilelace::plan
