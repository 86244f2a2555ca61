// SPDX-License-Identifier: Apache-2.0
// A file of the fuzzer's bytes. A reader must read it, or refuse it with a usage error of one line.
// Anything else ends the process, and the fuzzer keeps the bytes.
#pragma once
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tilelace/error.h"

namespace tilelace::fuzz {

/// A file in memory, with a path that a reader can open.
class UntrustedFile {
 public:
  UntrustedFile(const std::uint8_t* bytes, std::size_t size)
      : fd_(memfd_create("untrusted", MFD_CLOEXEC)) {
    if (fd_ < 0 || ::write(fd_, bytes, size) != static_cast<ssize_t>(size)) std::abort();
  }
  UntrustedFile(const UntrustedFile&) = delete;
  UntrustedFile& operator=(const UntrustedFile&) = delete;
  ~UntrustedFile() { ::close(fd_); }

  [[nodiscard]] std::filesystem::path path() const {
    return "/proc/self/fd/" + std::to_string(fd_);
  }

 private:
  int fd_;
};

inline void expect(bool holds, const char* what, const std::string& of = {}) {
  if (holds) return;
  std::fprintf(stderr, "expected %s, got: %s\n", what, of.c_str());
  std::abort();
}

/// Catches only Error; any other exception ends the process.
template <class Read>
void read_or_refuse(const Read& read) {
  try {
    read();
  } catch (const Error& e) {
    const std::string text = e.what();
    expect(e.kind() == ErrorKind::usage, "a usage error", text);
    expect(!text.empty() && std::none_of(text.begin(), text.end(),
                                         [](unsigned char c) { return c < 0x20 || c == 0x7f; }),
           "an error of one line", text);
  }
}

}  // namespace tilelace::fuzz
