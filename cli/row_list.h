// SPDX-License-Identifier: Apache-2.0
// Files of rows. A line has an op, n (of each weight) and k of the unsharded product, values of m,
// and optionally a name and an activation. tools/torch_bench reads these files, too.
#pragma once
#include <filesystem>
#include <string_view>

#include "job.h"

namespace tilelace::cli {

/// Turns each line of such a file into a job. The workload's sizes are all values of m in the file;
/// `skip` leaves out the sizes that a job's line lacks. Errors: usage, naming `file` and the line.
void read_rows(std::string_view file, std::string_view text, int ranks, Workload& work);
/// As read_rows, but reads the text from `file`.
void load_rows(const std::filesystem::path& file, int ranks, Workload& work);

}  // namespace tilelace::cli
