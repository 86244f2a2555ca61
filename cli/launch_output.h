// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <poll.h>

#include <string>
#include <vector>

#include "comm/unique_fd.h"

namespace tilelace::cli {

/// Prints the ranks' output in whole lines, each prefixed with its rank: "[2] text".
class TaggedOutput {
 public:
  /// Makes a pipe, returns its write end. Lines written to it go to descriptor `to` (1 or 2).
  comm::UniqueFd add(int rank, int to);
  /// Waits at most `wait_ms` for output and prints it. Throws Interrupted if the reader is gone.
  void print(int wait_ms);
  /// Prints what the pipes still hold, unfinished lines too, and closes the pipes.
  void finish();

 private:
  struct Stream {
    int rank = 0;
    int to = 1;
    comm::UniqueFd from;
    std::string text;  ///< received, not yet printed
  };
  static void read_some(Stream& stream);
  static void print_lines(Stream& stream);

  std::vector<Stream> streams_;
};

}  // namespace tilelace::cli
