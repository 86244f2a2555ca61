// SPDX-License-Identifier: Apache-2.0
// Ranks as children of the command: none of them may outlive it.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "comm/group.h"
#include "core/check.h"
#include "machine.h"
#include "ranks_internal.h"
#include "signals.h"

namespace tilelace::cli {
namespace {

void write_frame(int fd, MessageKind kind, const std::string& text) {
  const auto length = static_cast<std::uint32_t>(text.size());
  std::string frame(sizeof(length) + 1, static_cast<char>(kind));
  std::memcpy(frame.data(), &length, sizeof(length));
  frame += text;
  for (std::size_t at = 0; at < frame.size();) {
    const ssize_t sent = write(fd, frame.data() + at, frame.size() - at);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) _exit(3);
    at += static_cast<std::size_t>(sent);
  }
}

[[noreturn]] void run_child(int rank, std::vector<int> sockets, int out, pid_t parent,
                            const RanksOptions& options, const RankWork& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(3);  // it died before the line above
  std::optional<Error> failure;
  try {
    auto member = Communicator::from_sockets(rank, std::move(sockets), options.group);
    failure = guarded(work, member,
                      [&](const std::string& text) { write_frame(out, MessageKind::data, text); });
    if (failure) member.abort();
  } catch (const std::exception& e) {
    const auto* error = dynamic_cast<const Error*>(&e);
    failure = Error(error != nullptr ? error->kind() : ErrorKind::system, e.what());
  }
  write_frame(out, failure ? MessageKind::failed : MessageKind::done,
              failure ? pack_error(*failure) : std::string());
  _exit(failure ? 3 : 0);
}

struct Child {
  pid_t pid = -1;
  int fd = -1;
  std::string received;
  bool finished = false;     ///< said so
  double stopped_since = 0;  ///< 0: it runs
};

/// The children; all are gone when it is.
class Family {
 public:
  Family(const RanksOptions& options, const RankWork& work) : options_(options) {
    auto mesh = comm::make_socket_mesh(options.ranks);
    const pid_t parent = getpid();
    std::fflush(nullptr);  // or children would print it again
    for (int r = 0; r < options.ranks; ++r) {
      std::array<int, 2> ends{};
      if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe", mesh);
      const pid_t pid = fork();
      if (pid < 0) {
        close(ends[0]), close(ends[1]);
        fail("fork", mesh);
      }
      if (pid == 0) {
        for (const Child& c : children_) close(c.fd);
        close(ends[0]);
        run_child(r, comm::take_row(mesh, r), ends[1], parent, options, work);
      }
      close(ends[1]);
      fcntl(ends[0], F_SETFL, O_NONBLOCK);
      children_.push_back({pid, ends[0], {}, false, 0});
    }
    comm::take_row(mesh, -1);
  }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;
  ~Family() { end(); }

  void listen(const Listener& listener) {
    double heard = seconds_now(), failed_at = 0;
    while (left_to_hear() > 0) {
      if (poll_once(listener)) heard = seconds_now();
      if (const int number = take_signal(); number != 0) throw Interrupted{number};
      watch();
      const double now = seconds_now();
      if (cause_.any() && failed_at == 0) failed_at = now;
      if (failed_at > 0 && now - failed_at > kGraceSeconds) break;
      if (now - heard > stall_seconds(options_)) {
        cause_.add({ErrorKind::timeout, fmt::format("ranks: no rank has made progress for {:.0f} s",
                                                    stall_seconds(options_))});
        break;
      }
      listener.on_idle();
    }
    end();
    cause_.throw_if_any();
  }

 private:
  [[noreturn]] void fail(const char* what, std::vector<std::vector<int>>& mesh) {
    const int reason = errno;
    comm::take_row(mesh, -1);
    end();
    raise(ErrorKind::system, "cannot start a process per rank: {}: {}", what,
          std::strerror(reason));
  }

  [[nodiscard]] int left_to_hear() const {
    int left = 0;
    for (const Child& c : children_) left += c.fd >= 0 ? 1 : 0;
    return left;
  }

  bool poll_once(const Listener& listener) {
    std::vector<pollfd> fds;
    for (const Child& c : children_) fds.push_back({c.fd, POLLIN, 0});
    if (poll(fds.data(), fds.size(), 100) <= 0) return false;
    for (std::size_t r = 0; r < children_.size(); ++r) {
      if (fds[r].revents != 0) read_from(static_cast<int>(r), listener);
    }
    return true;
  }

  void read_from(int rank, const Listener& listener) {
    Child& c = children_[static_cast<std::size_t>(rank)];
    std::array<char, 65536> buffer{};
    const ssize_t got = read(c.fd, buffer.data(), buffer.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got > 0) {
      c.received.append(buffer.data(), static_cast<std::size_t>(got));
      take_frames(rank, listener);
      return;
    }
    close(std::exchange(c.fd, -1));
    if (!c.finished) cause_.add(death_of(rank));
  }

  void take_frames(int rank, const Listener& listener) {
    Child& c = children_[static_cast<std::size_t>(rank)];
    std::uint32_t length = 0;
    while (c.received.size() > sizeof(length)) {
      std::memcpy(&length, c.received.data(), sizeof(length));
      if (c.received.size() < sizeof(length) + 1 + length) return;
      const auto kind = static_cast<MessageKind>(c.received[sizeof(length)]);
      const std::string text = c.received.substr(sizeof(length) + 1, length);
      c.received.erase(0, sizeof(length) + 1 + length);
      if (kind == MessageKind::failed) cause_.add(unpack_error(text));
      if (kind != MessageKind::data) c.finished = true;
      if (kind == MessageKind::data && !text.empty()) listener.on_message(rank, text);
    }
  }

  Error death_of(int rank) {
    Child& c = children_[static_cast<std::size_t>(rank)];
    int status = 0;
    // Its end of the pipe is closed, so it is on its way out.
    for (int tries = 0; tries < 100 && c.pid > 0; ++tries) {
      const pid_t got = waitpid(c.pid, &status, WNOHANG);
      if (got == c.pid) c.pid = -1;
      if (got == 0) usleep(1000);
    }
    const std::string how =
        WIFSIGNALED(status)
            ? fmt::format("signal {} ({})", WTERMSIG(status), sigabbrev_np(WTERMSIG(status)))
            : fmt::format("exit status {}", WEXITSTATUS(status));
    // The cause of all else that the others report.
    return {ErrorKind::system,
            fmt::format("ranks: the process of rank {} ended with {} before it gave a result", rank,
                        how)};
  }

  /// A stopped child cannot say so.
  void watch() {
    for (std::size_t r = 0; r < children_.size(); ++r) {
      Child& c = children_[r];
      int status = 0;
      if (c.pid <= 0 || waitpid(c.pid, &status, WNOHANG | WUNTRACED | WCONTINUED) != c.pid) {
        status = -1;
      } else if (WIFSTOPPED(status)) {
        c.stopped_since = seconds_now();
      } else if (WIFCONTINUED(status)) {
        c.stopped_since = 0;
      } else {
        c.pid = -1;
        if (c.fd >= 0 && WIFSIGNALED(status)) {
          cause_.add({ErrorKind::system,
                      fmt::format("ranks: the process of rank {} ended with signal {} ({}) "
                                  "before it gave a result",
                                  r, WTERMSIG(status), sigabbrev_np(WTERMSIG(status)))});
        }
      }
      if (c.stopped_since > 0 && seconds_now() - c.stopped_since > options_.group.timeout_s) {
        cause_.add({ErrorKind::timeout,
                    fmt::format(
                        "ranks: the process of rank {} was stopped for longer than --timeout", r)});
      }
    }
  }

  void end() noexcept {
    for (Child& c : children_) {
      if (c.pid > 0 && !c.finished) kill(c.pid, SIGKILL);  // ends stopped ones, too
    }
    for (Child& c : children_) {
      if (c.fd >= 0) close(std::exchange(c.fd, -1));
      // One that is done may still hang in its exit.
      for (int tries = 0; c.pid > 0 && tries < 2000; ++tries) {
        if (waitpid(c.pid, nullptr, WNOHANG) != 0) c.pid = -1;
        if (c.pid > 0) usleep(1000);
      }
      if (c.pid > 0) kill(c.pid, SIGKILL), waitpid(c.pid, nullptr, 0);
      c.pid = -1;
    }
  }

  const RanksOptions& options_;
  std::vector<Child> children_;
  FirstCause cause_;
};

}  // namespace

void run_processes(const RanksOptions& options, const RankWork& work, const Listener& listener) {
  Family family(options, work);
  const SignalGuard guard;
  family.listen(listener);
}

}  // namespace tilelace::cli
