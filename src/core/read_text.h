// SPDX-License-Identifier: Apache-2.0
// Reads a whole file of limited size that other programs may have written.
#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/check.h"

namespace tilelace {
namespace detail {

struct OpenFile {
  int fd = -1;
  explicit OpenFile(int f) : fd(f) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace detail

/// The content of a regular file of 1 to `limit` bytes. `what` ("config") begins error texts.
/// Errors: usage.
inline std::string read_text(std::string_view what, const std::filesystem::path& file,
                             std::size_t limit) {
  // O_NONBLOCK: opening a pipe by mistake must not block.
  const detail::OpenFile in(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat st {};
  if (in.fd < 0 || ::fstat(in.fd, &st) != 0)
    raise(ErrorKind::usage, "{}: {} cannot be read: {}", what, file.string(),
          std::generic_category().message(errno));
  require(S_ISREG(st.st_mode), "{}: {} is a {}, expected a regular file", what, file.string(),
          S_ISDIR(st.st_mode) ? "folder" : "special file");
  const auto size = static_cast<std::size_t>(st.st_size);
  require(size <= limit, "{}: {}: got {} bytes, expected at most {}", what, file.string(), size,
          limit);
  std::string text(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(in.fd, text.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  require(done == size, "{}: {} cannot be read: got only {} of its {} bytes", what, file.string(),
          done, size);
  require(size > 0, "{}: {} is empty", what, file.string());
  return text;
}

/// For nlohmann::json::parse: refuses values that are nested deeper than `most` levels, since they
/// would overflow the stack where they are printed. `where` begins error texts. Errors: usage.
inline auto nested_at_most(int most, std::string where) {
  return [most, where = std::move(where)](int depth, auto /*event*/, const auto& /*value*/) {
    require(depth <= most, "{} nested deeper than {} levels", where, most);
    return true;
  };
}

}  // namespace tilelace
