// SPDX-License-Identifier: Apache-2.0
// Files of rows. A line has an op, n (of each weight) and k of the unsharded product, values of m,
// and optionally a name and an activation. tools/torch_bench reads these files, too.
#pragma once
#include <filesystem>
#include <string_view>

#include "job.h"

namespace tilelace::cli {

/// Fills the workload from the text of such a file: a job per line, the values of m of all lines,
/// and in `skip` true for a (job, m) that no line has. Errors: usage, naming `file` and the line.
void read_rows(std::string_view file, std::string_view text, int ranks, Workload& work);
/// The same, but reads the text from `file`.
void load_rows(const std::filesystem::path& file, int ranks, Workload& work);

}  // namespace tilelace::cli
