// SPDX-License-Identifier: Apache-2.0
// The record: one JSON object a line, the same keys from every command and backend.
#pragma once
#include <cstdio>
#include <memory>
#include <string>

#include "row.h"

namespace tilelace::cli {

/// "tilelace.bench/1"; absent figures are null.
std::string record_line(const Workload& work, const Row& row);

/// Where lines go: a file (made or replaced), standard output ("-"), or nowhere (empty).
class RecordFile {
 public:
  /// Errors: usage, when it cannot be opened for writing.
  explicit RecordFile(const std::string& path);
  [[nodiscard]] bool is_stdout() const { return path_ == "-"; }
  /// Writes a line and flushes it. Errors: usage, when it does not get there.
  void write(const std::string& line);

 private:
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

}  // namespace tilelace::cli
