// SPDX-License-Identifier: Apache-2.0
// The records that a GPU program writes.
#pragma once
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "core/check.h"

namespace tilelace::gpu_test {

using Json = nlohmann::ordered_json;

/// Writes the lines of --json FILE ("-": standard output, "": none).
class JsonLines {
 public:
  /// `append`: keeps the lines of an existing file. Error: usage.
  JsonLines(const std::string& path, bool append) {
    if (path.empty()) return;
    if (path == "-") {
      file_ = {stdout, [](std::FILE* f) { return std::fflush(f); }};
      return;
    }
    file_.reset(std::fopen(path.c_str(), append ? "ae" : "we"));
    require(file_ != nullptr, "--json: {}: got \"{}\", expected a file to write", path,
            std::strerror(errno));
  }
  /// Writes the line at once: a run that ends early leaves those that it has. Error: usage.
  void write(const Json& line) {
    if (!file_) return;
    const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    require(std::fputs(text.c_str(), file_.get()) >= 0 && std::fflush(file_.get()) == 0,
            "--json: got \"{}\", expected a place for a record", std::strerror(errno));
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, std::fclose};
};

}  // namespace tilelace::gpu_test
