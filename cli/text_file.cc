// SPDX-License-Identifier: Apache-2.0
#include "text_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/check.h"

namespace tilelace::cli {
namespace {

namespace fs = std::filesystem;

/// Where a text is written first. Pipes and devices have no place beside them, nor need one.
struct Target {
  std::string final, first;
  [[nodiscard]] bool direct() const { return final == first; }
};

Target target_of(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(path, error);
  const std::string place = error ? path : real.string();
  const bool special = fs::exists(place, error) && !fs::is_regular_file(place, error);
  return {place, special ? place : fmt::format("{}.{}.part", place, getpid())};
}

std::FILE* opened(const std::string& option, const std::string& path, const std::string& first) {
  std::FILE* file = std::fopen(first.c_str(), "we");
  require(file != nullptr, "{}: cannot write {}: {}", option, path, std::strerror(errno));
  return file;
}

}  // namespace

void require_writable(const std::string& option, const std::string& path) {
  const Target to = target_of(path);
  std::fclose(opened(option, path, to.first));
  if (!to.direct()) std::remove(to.first.c_str());
}

void write_text(const std::string& option, const std::string& path, const std::string& text) {
  const Target to = target_of(path);
  std::FILE* file = opened(option, path, to.first);
  bool good = std::fputs(text.c_str(), file) >= 0 && std::fflush(file) == 0;
  int why = good ? 0 : errno;
  if (std::fclose(file) != 0 && good) good = false, why = errno;
  if (good && !to.direct() && std::rename(to.first.c_str(), to.final.c_str()) != 0)
    good = false, why = errno;
  if (!good && !to.direct()) std::remove(to.first.c_str());
  require(good, "{}: cannot write {}: {}", option, path, std::strerror(why));
}

}  // namespace tilelace::cli
