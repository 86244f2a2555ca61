// SPDX-License-Identifier: Apache-2.0
#include "launch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "comm/launch_env.h"
#include "comm/unique_fd.h"
#include "core/check.h"
#include "core/env.h"
#include "launch_output.h"
#include "machine.h"
#include "signals.h"

namespace tilelace::cli {
namespace {

/// A port that no other launch gets while it lives. Who sets SO_REUSEADDR, as PyTorch and MPI do,
/// can listen on it all the same.
class Port {
 public:
  Port() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    const int on = 1;
    if (!socket_ || bind(socket_.get(), any, size) != 0 ||
        getsockname(socket_.get(), any, &size) != 0 ||
        setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
      raise(ErrorKind::system, "launch: no free port on 127.0.0.1: {}", std::strerror(errno));
    number_ = ntohs(address.sin_port);
  }
  [[nodiscard]] int number() const { return number_; }

 private:
  comm::UniqueFd socket_;
  int number_ = 0;
};

using Variables = std::map<std::string, std::string>;

Variables variables_of(int rank, int ranks, int port) {
  const std::string r = std::to_string(rank), all = std::to_string(ranks);
  return {{"RANK", r},
          {"WORLD_SIZE", all},
          {"LOCAL_RANK", r},
          {"LOCAL_WORLD_SIZE", all},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)}};
}

/// Killed ranks leave their meeting place behind.
void remove_meeting_place(const Variables& variables) noexcept {
  try {
    const auto found = comm::read_launch([&](const char* name) -> std::optional<std::string> {
      const auto own = variables.find(name);
      return own != variables.end() ? own->second : env::launch_variable(name);
    });
    struct stat info {};
    if (!found || lstat(found->directory.c_str(), &info) != 0) return;
    std::error_code ignored;
    if (S_ISDIR(info.st_mode) && info.st_uid == geteuid())
      std::filesystem::remove_all(found->directory, ignored);
  } catch (const std::exception& e) {
    fmt::print(stderr, "tilelace: launch: {}\n", e.what());
  }
}

/// How a process ended, for people and as an exit code.
struct Ending {
  int code = 0;
  std::string words;
};

Ending ending_of(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED)
    return {info.si_status, fmt::format("exit status {}", info.si_status)};
  const char* name = sigabbrev_np(info.si_status);
  return {128 + info.si_status,
          fmt::format("ended by signal {} ({})", info.si_status, name == nullptr ? "?" : name)};
}

struct Rank {
  pid_t pid = -1;  ///< leads a process group; not reaped before the end, so the number stays its
  bool ended = false;
};

class Launched {
 public:
  explicit Launched(const LaunchOptions& options) : options_(options) {
    // Who loses its parent becomes our child, so that we see it gone.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::signal(SIGPIPE, SIG_IGN);
    std::fflush(nullptr);
  }
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;
  ~Launched() {
    bury();
    remove_meeting_place(variables_of(0, options_.ranks, port_.number()));
    std::signal(SIGPIPE, SIG_DFL);
  }

  int run() {
    for (int r = 0; r < options_.ranks; ++r) start(r);
    int interrupted = 0;
    while (!all_ended() && failed_ < 0 && interrupted == 0) {
      pause();
      interrupted = take_signal();
    }
    if (!all_ended()) end_all();
    bury();
    output_.finish();
    if (interrupted != 0) throw Interrupted{interrupted};
    if (failed_ < 0) return 0;
    fmt::print(stderr, "tilelace: launch: rank {} of {} failed: {}{}\n", failed_, options_.ranks,
               first_.words,
               others_ == 0 ? "" : fmt::format("; ended the {} still running", others_));
    return first_.code;
  }

 private:
  void start(int rank) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) refuse(ErrorKind::system, "pipe");
    const comm::UniqueFd from(ends[0]);
    comm::UniqueFd to(ends[1]);
    comm::UniqueFd out, err;
    if (options_.tag) out = output_.add(rank, 1), err = output_.add(rank, 2);
    const pid_t parent = getpid(), pid = fork();
    if (pid < 0) refuse(ErrorKind::system, "fork");
    if (pid == 0) become(rank, parent, to.get(), out.get(), err.get());
    ranks_.push_back({pid, false});
    to.reset();
    int reason = 0;  // nothing comes when the program has started
    ssize_t got = 0;
    while ((got = read(from.get(), &reason, sizeof reason)) < 0 && errno == EINTR) {
    }
    if (got != sizeof reason) return;
    errno = reason;
    refuse(ErrorKind::usage, options_.command[0]);
  }

  [[noreturn]] static void refuse(ErrorKind kind, const std::string& what) {
    raise(kind, "launch: cannot start {}: {}",
          kind == ErrorKind::usage ? what : fmt::format("one more rank ({})", what),
          std::strerror(errno));
  }

  [[noreturn]] void become(int rank, pid_t parent, int report, int out, int err) const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(3);  // it died before the line above
    setpgid(0, 0);
    std::signal(SIGPIPE, SIG_DFL);
    for (const auto& [name, value] : variables_of(rank, options_.ranks, port_.number()))
      setenv(name.c_str(), value.c_str(), 1);
    // Several readers of one terminal take each other's input, and a group that is not in the
    // foreground would be stopped.
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    if (out >= 0) dup2(out, 1), dup2(err, 2);
    std::vector<char*> arguments;
    for (const auto& a : options_.command) arguments.push_back(const_cast<char*>(a.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    const int reason = errno;
    const ssize_t told = write(report, &reason, sizeof reason);
    _exit(told > 0 ? 127 : 3);
  }

  /// Prints what comes, then looks who has ended.
  void pause() {
    output_.print(20);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      siginfo_t info{};
      if (ranks_[r].ended ||
          waitid(P_PID, static_cast<id_t>(ranks_[r].pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0)
        continue;
      if (info.si_pid != ranks_[r].pid) continue;
      ranks_[r].ended = true;
      const Ending ending = ending_of(info);
      if (ending.code == 0 || failed_ >= 0) continue;
      failed_ = static_cast<int>(r);
      first_ = ending;
    }
  }

  /// Asks; a second signal, or the end of the grace, makes bury() kill.
  void end_all() {
    for (const Rank& r : ranks_) {
      others_ += r.ended ? 0 : 1;
      kill(-r.pid, SIGTERM);
    }
    const double begin = seconds_now();
    while (!all_ended() && seconds_now() - begin < options_.grace_s && take_signal() == 0) pause();
  }

  /// Kills what is left of every rank's group and takes leave of it.
  void bury() noexcept {
    for (const Rank& r : ranks_) kill(-r.pid, SIGKILL), kill(r.pid, SIGKILL);
    for (const Rank& r : ranks_)
      // A process in the middle of a device call may take a while to go.
      for (int tries = 0; tries < 10000; ++tries) {
        const pid_t gone = waitpid(-r.pid, nullptr, WNOHANG);
        if (gone < 0) break;
        if (gone == 0) usleep(1000);
      }
    ranks_.clear();
  }

  [[nodiscard]] bool all_ended() const {
    for (const Rank& r : ranks_)
      if (!r.ended) return false;
    return true;
  }

  const LaunchOptions& options_;
  const Port port_;
  const SignalGuard guard_;
  TaggedOutput output_;
  std::vector<Rank> ranks_;
  int failed_ = -1;  ///< the first rank that did
  Ending first_;
  int others_ = 0;
};

}  // namespace

int launch(const LaunchOptions& options) {
  Launched launched(options);
  return launched.run();
}

}  // namespace tilelace::cli
