// SPDX-License-Identifier: Apache-2.0
// Writes a file atomically: readers see either the old content or the whole new content.
#pragma once
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "core/check.h"

namespace tilelace {

/// `what` begins error texts. Errors: usage.
inline void write_text(std::string_view what, const std::filesystem::path& file,
                       const std::string& text) {
  const std::string first = fmt::format("{}.{}.part", file.string(), getpid());
  std::FILE* out = std::fopen(first.c_str(), "we");
  bool good = out != nullptr;
  int why = good ? 0 : errno;
  if (good && (std::fwrite(text.data(), 1, text.size(), out) != text.size() ||
               std::fflush(out) != 0 || ::fsync(::fileno(out)) != 0))
    good = false, why = errno;
  if (out != nullptr && std::fclose(out) != 0 && good) good = false, why = errno;
  if (good && std::rename(first.c_str(), file.c_str()) != 0) good = false, why = errno;
  if (!good) std::remove(first.c_str());
  require(good, "{}: {} cannot be written: {}", what, file.string(),
          std::generic_category().message(why));
}

}  // namespace tilelace
