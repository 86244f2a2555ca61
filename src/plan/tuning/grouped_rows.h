// SPDX-License-Identifier: Apache-2.0
// Rows of a table that say which tiles a product grouped by expert takes.
#pragma once
#include <string_view>

#include "plan/tuning/table_fields.h"
#include "plan/tuning/tuning_table.h"

namespace tilelace::plan {

/// The field `op` of such rows.
inline constexpr std::string_view kGroupedOp = "grouped_gemm";

/// Whether a row is for a grouped product. Errors: usage (op is missing or not a text).
bool is_grouped(const TableFields& row);
/// Adds the row to the table. If its type is unknown or it was measured with other kernels, adds a
/// note instead. Errors: usage (a field is missing or invalid; the product has a row already).
void take_grouped(const TableFields& row, TuningTable&);

}  // namespace tilelace::plan
