// SPDX-License-Identifier: Apache-2.0
// A thread that watches for dead peers. It sees when sockets close and when processes end.
#pragma once
#include <functional>
#include <thread>
#include <vector>

#include "comm/unique_fd.h"

namespace tilelace::comm {

struct WatchedPeer {
  int rank = -1;
  int socket = -1;  ///< not owned; watched only for hang-up, never read
  UniqueFd pidfd;   ///< optional; shows a death even if other processes inherited the socket
};

/// A descriptor that becomes readable when the process ends; empty if the kernel gives none.
UniqueFd open_pidfd(int pid);

class Watcher {
 public:
  /// `gone` runs on the watcher's thread, once per dead peer; it must not throw. Error: system.
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
