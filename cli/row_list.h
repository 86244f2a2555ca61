// SPDX-License-Identifier: Apache-2.0
// Files of rows: a line has one op, n (of each weight), k of the unsharded product, values of m,
// and perhaps a name and an activation. tools/torch_bench reads them, too.
#pragma once
#include <filesystem>
#include <string_view>

#include "job.h"

namespace tilelace::cli {

/// Jobs of such a text, a line each, all values of m, and what of these a line does not ask for
/// (`skip`). Errors: usage, naming `file` and the line.
void read_rows(std::string_view file, std::string_view text, int ranks, Workload& work);
/// The same of a file.
void load_rows(const std::filesystem::path& file, int ranks, Workload& work);

}  // namespace tilelace::cli
