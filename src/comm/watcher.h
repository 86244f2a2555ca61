// SPDX-License-Identifier: Apache-2.0
// The death watch: a thread that sees peers' sockets hang up and their processes end.
#pragma once
#include <functional>
#include <thread>
#include <vector>

#include "comm/unique_fd.h"

namespace tilelace::comm {

struct WatchedPeer {
  int rank = -1;
  int socket = -1;  ///< not owned; only hang-up is looked at, never data
  UniqueFd pidfd;   ///< may be absent. It also sees a death that inherited sockets would hide
};

/// A descriptor that becomes readable when the process ends; none if that cannot be had.
UniqueFd open_pidfd(int pid);

class Watcher {
 public:
  /// `gone` runs on the watcher's thread, once a peer; it must not throw. Error: system.
  Watcher(std::vector<WatchedPeer> peers, std::function<void(int rank)> gone);
  /// Ends the thread at once. The sockets must still be open.
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  void run();

  std::vector<WatchedPeer> peers_;
  std::function<void(int)> gone_;
  UniqueFd stop_;
  std::thread thread_;
};

}  // namespace tilelace::comm
