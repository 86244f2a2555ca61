// SPDX-License-Identifier: Apache-2.0
// A trial's ranks as processes. The parent never uses CUDA, so that it may fork.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "comm/unique_fd.h"
#include "core/check.h"
#include "harness.h"
#include "wait_trial.h"

namespace tilelace::gpu_test {
namespace {

using comm::UniqueFd;

constexpr double kTrialSeconds = 60;
constexpr double kRegroupSeconds = 20;

struct Spec {
  Fault fault;
  int ranks;
  int victim;
  double bound_s;
  std::string directory;
};

/// The child: never returns.
[[noreturn]] void be_rank(const Spec& spec, int rank, std::vector<int> sockets, int out) {
  Trial t{spec.fault, rank, spec.ranks, spec.victim, spec.bound_s, {}, {}};
  t.strike = [&] {
    usleep(200000);  // the others leave their meeting before the death watch speaks
    if (spec.fault == Fault::stops) ::raise(SIGSTOP);  // until the parent lets it go on
    _exit(0);
  };
  t.regroup = [&] {
    const bool all = spec.fault == Fault::abort;
    const int place = !all && rank > spec.victim ? rank - 1 : rank;
    return comm::make_process_group(place, all ? spec.ranks : spec.ranks - 1, spec.directory,
                                    kRegroupSeconds);
  };
  Report report;
  try {
    report = run_trial(t, comm::make_socket_group(rank, std::move(sockets), kRegroupSeconds));
  } catch (const std::exception& e) {
    report.rank = rank;
    report.say(fmt::format("FAILED {}", e.what()));
  }
  const bool sent = write(out, &report, sizeof report) == static_cast<ssize_t>(sizeof report);
  _exit(sent && report.good ? 0 : 1);
}

/// Reports until `count` are there, every writer is gone, or time is up.
std::vector<Report> read_reports(int in, std::size_t count) {
  std::vector<Report> reports;
  const double end = now_s() + kTrialSeconds;
  while (reports.size() < count && now_s() < end) {
    pollfd p{in, POLLIN, 0};
    if (poll(&p, 1, 200) <= 0) continue;
    Report r;  // smaller than PIPE_BUF: whole or not at all
    const ssize_t got = read(in, &r, sizeof r);
    if (got == 0) break;
    if (got == static_cast<ssize_t>(sizeof r)) reports.push_back(r);
  }
  return reports;
}

bool ended_within(pid_t child, double seconds) {
  const double end = now_s() + seconds;
  int status = 0;
  for (;;) {
    const pid_t done = waitpid(child, &status, WNOHANG);
    if (done == child || (done < 0 && errno != EINTR)) return true;
    if (now_s() > end) return false;
    usleep(5000);
  }
}

/// The victim's streams were synchronised before it stopped: it may be killed. Nobody else is, as
/// its kernels might be storing to peers; their waits are bounded.
void reap(const Spec& spec, const std::vector<pid_t>& children) {
  for (int r = 0; r < spec.ranks; ++r) {
    const pid_t child = children[static_cast<std::size_t>(r)];
    const bool victim = spec.fault != Fault::abort && r == spec.victim;
    if (victim && spec.fault == Fault::stops) kill(child, SIGCONT);
    if (ended_within(child, 20)) continue;
    if (victim) kill(child, SIGKILL);
    require(victim && ended_within(child, 10),
            "wait_check: the process {} of rank {}, got no end in 20 s, expected one", child, r);
  }
}

}  // namespace

std::vector<Report> run_process_trial(Fault fault, int ranks, int victim, double bound_s) {
  std::string name = std::filesystem::temp_directory_path() / "tilelace-waits-XXXXXX";
  require(mkdtemp(name.data()) != nullptr, "wait_check: a directory {}, got \"{}\", expected one",
          name, std::strerror(errno));
  const Spec spec{fault, ranks, victim, bound_s, name};
  int ends[2];
  require(pipe(ends) == 0, "wait_check: a pipe, got \"{}\", expected one", std::strerror(errno));
  const UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  auto mesh = comm::make_socket_mesh(ranks);
  std::vector<pid_t> children;
  std::fflush(nullptr);
  for (int r = 0; r < ranks; ++r) {
    const pid_t child = fork();
    require(child >= 0, "wait_check: fork, got \"{}\", expected a process", std::strerror(errno));
    if (child == 0) {
      close(in.get());
      be_rank(spec, r, comm::take_row(mesh, r), out.get());
    }
    children.push_back(child);
  }
  comm::take_row(mesh, -1);
  out.reset();
  const std::size_t count = static_cast<std::size_t>(fault == Fault::abort ? ranks : ranks - 1);
  std::vector<Report> reports = read_reports(in.get(), count);
  reap(spec, children);
  std::error_code ignored;
  std::filesystem::remove_all(name, ignored);
  return reports;
}

}  // namespace tilelace::gpu_test
