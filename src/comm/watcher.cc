// SPDX-License-Identifier: Apache-2.0
#include "comm/watcher.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <system_error>

#include "comm/failure.h"
#include "core/check.h"

namespace tilelace::comm {

UniqueFd open_pidfd(int pid) {
  if (pid <= 0) return {};
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));  // close-on-exec by itself
}

Watcher::Watcher(std::vector<WatchedPeer> peers, std::function<void(int)> gone)
    : peers_(std::move(peers)), gone_(std::move(gone)), stop_(eventfd(0, EFD_CLOEXEC)) {
  if (!stop_) raise(ErrorKind::system, "communicator: eventfd failed: {}", errno_text(errno));
  // The user's signals are for the user's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& e) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    raise(ErrorKind::system,
          "communicator: the thread that watches for dead ranks could not start: {}", e.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Watcher::~Watcher() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void Watcher::run() {
  // Two entries a peer, then the stop event. An entry of -1 is not looked at.
  std::vector<pollfd> polls;
  for (const WatchedPeer& peer : peers_) {
    polls.push_back({peer.socket, POLLRDHUP, 0});
    polls.push_back({peer.pidfd.get(), POLLIN, 0});
  }
  polls.push_back({stop_.get(), POLLIN, 0});
  for (;;) {
    if (poll(polls.data(), polls.size(), -1) < 0) {
      // Out of memory or over a limit: watch on later, but be sure to see the end.
      pollfd stop{stop_.get(), POLLIN, 0};
      if (poll(&stop, 1, 10) > 0) return;
      continue;
    }
    if (polls.back().revents != 0) return;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      pollfd* pair = &polls[2 * i];
      if (pair[0].revents == 0 && pair[1].revents == 0) continue;
      gone_(peers_[i].rank);
      pair[0].fd = pair[1].fd = -1;
      pair[0].revents = pair[1].revents = 0;
    }
  }
}

}  // namespace tilelace::comm
