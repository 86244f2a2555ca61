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
  /// Makes a pipe and returns its write end. The output is printed to descriptor `to` (1 or 2).
  comm::UniqueFd add(int rank, int to);
  /// Prints output that comes within `wait_ms`. Throws Interrupted if the reader of `to` is gone.
  void print(int wait_ms);
  /// Prints what the pipes still hold, including unfinished lines, and closes the pipes.
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
