// SPDX-License-Identifier: Apache-2.0
// Records: one JSON object per line. The schema determines the keys; `simulate` adds some.
#pragma once
#include <cstdio>
#include <memory>
#include <string>

#include "row.h"

namespace tilelace::cli {

/// A record of schema "tilelace.bench/1"; absent figures are null.
std::string record_line(const Workload& work, const Row& row);

/// Where records are written: a file, standard output ("-"), or nowhere (empty path).
class RecordFile {
 public:
  /// The file is made. One that exists is replaced, or goes on if `adds`. Errors: usage, if it
  /// cannot be opened for writing.
  explicit RecordFile(const std::string& path, bool adds = false);
  [[nodiscard]] bool is_stdout() const { return path_ == "-"; }
  /// Writes a line and flushes it. Errors: usage, if that fails.
  void write(const std::string& line);

 private:
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

}  // namespace tilelace::cli
