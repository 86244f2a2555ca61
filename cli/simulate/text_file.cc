// SPDX-License-Identifier: Apache-2.0
#include "simulate/text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "core/check.h"

namespace tilelace::cli {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File opened(const std::string& option, const std::string& path, const char* mode) {
  File file(std::fopen(path.c_str(), mode), std::fclose);
  require(file != nullptr, "{}: {}: got \"{}\", expected a file to write", option, path,
          std::strerror(errno));
  return file;
}

}  // namespace

void require_writable(const std::string& option, const std::string& path) {
  opened(option, path, "ae");
}

void write_text(const std::string& option, const std::string& path, const std::string& text) {
  const File file = opened(option, path, "we");
  const bool good = std::fputs(text.c_str(), file.get()) >= 0 && std::fflush(file.get()) == 0;
  require(good, "{}: {}: got \"{}\", expected a place for it", option, path, std::strerror(errno));
}

}  // namespace tilelace::cli
