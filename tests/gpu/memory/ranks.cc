// SPDX-License-Identifier: Apache-2.0
#include "ranks.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "comm/cuda/capabilities.h"
#include "core/check.h"

namespace tilelace::comm::test {
namespace {

/// Far beyond all bounds within the children, of which no kernel waits for a peer.
constexpr int kChildBound_s = 150;

void write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR) return;  // the parent is gone
    if (n > 0) done += static_cast<std::size_t>(n);
  }
}

struct Child {
  pid_t pid = -1;
  UniqueFd from;
  std::string text;
  int status = -1;  ///< of waitpid
};

/// Forks a child that runs `work` with a descriptor to write to. Its exit status is 0.
Child start(const std::function<void(int out)>& work) {
  int ends[2];
  if (pipe(ends) != 0) raise(ErrorKind::system, "gpu_memory_check: pipe, got none, expected one");
  std::fflush(stdout);
  Child child;
  child.pid = fork();
  if (child.pid < 0) raise(ErrorKind::system, "gpu_memory_check: fork, got none, expected a child");
  if (child.pid == 0) {
    close(ends[0]);
    int status = 0;
    try {
      work(ends[1]);
    } catch (const std::exception& e) {
      fmt::print(stderr, "gpu_memory_check: {}\n", e.what());
      status = 3;
    }
    std::fflush(nullptr);
    _exit(status);
  }
  close(ends[1]);
  child.from.reset(ends[0]);
  return child;
}

/// Reads what children write until each has ended; ends those that do not.
void gather(std::vector<Child>& children) {
  const auto start = std::chrono::steady_clock::now();
  const auto late = [&] {
    return std::chrono::steady_clock::now() - start > std::chrono::seconds(kChildBound_s);
  };
  for (std::size_t open = children.size(); open > 0 && !late();) {
    std::vector<pollfd> polls;
    for (const Child& c : children) polls.push_back({c.from.get(), POLLIN, 0});
    poll(polls.data(), polls.size(), 200);
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (polls[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t n = read(children[i].from.get(), buffer, sizeof buffer);
      if (n > 0) children[i].text.append(buffer, static_cast<std::size_t>(n));
      if (n > 0 || (n < 0 && errno == EINTR)) continue;
      children[i].from.reset();
      --open;
    }
  }
  for (Child& c : children) {
    while (waitpid(c.pid, &c.status, WNOHANG) == 0) {
      if (late()) kill(c.pid, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
}

struct Round {
  std::string model;
  std::vector<Check> checks;
  const Options& options;
  int ranks;
  int gpus;
  [[nodiscard]] int ranks_a_gpu() const { return (ranks + gpus - 1) / gpus; }
};

void say_failed(const Round& round, const char* check, int rank, const char* what, int out) {
  write_all(out,
            to_line({check, round.model, rank, round.ranks, Finding::Result::error, what, {}}));
}

/// The child that holds all ranks.
void run_as_threads(const Round& round, int out) {
  for (const Check& check : round.checks) {
    auto groups = make_thread_groups(round.ranks);
    std::vector<std::thread> threads;
    for (int r = 0; r < round.ranks; ++r)
      threads.emplace_back([&, r] {
        try {
          Gpu gpu(r % round.gpus);
          Member member{*groups[static_cast<std::size_t>(r)],
                        gpu,
                        round.options,
                        round.model,
                        round.ranks_a_gpu(),
                        {},
                        out};
          run_member(check, member);
        } catch (const std::exception& e) {
          say_failed(round, check.name, r, e.what(), out);
        }
        groups[static_cast<std::size_t>(r)].reset();
      });
    for (auto& t : threads) t.join();
  }
}

/// Sockets of one check, made before the fork.
struct Sockets {
  std::vector<std::vector<int>> all;
  std::vector<std::vector<int>> survivors;
};

/// The child that is one rank. A group of its own for each check: a failure ends only that one.
void run_as_rank(const Round& round, int rank, int device, std::vector<Sockets>& sockets, int out) {
  struct Rows {
    std::vector<int> all;
    std::vector<int> spare;
  };
  std::vector<Rows> rows;
  for (Sockets& s : sockets) {
    const int survivors = static_cast<int>(s.survivors.size());
    Rows& row = rows.emplace_back();
    row.all = take_row(s.all, rank);
    row.spare = take_row(s.survivors, rank < survivors ? rank : -1);
  }
  std::unique_ptr<Gpu> gpu;
  for (std::size_t i = 0; i < round.checks.size(); ++i) {
    const Check& check = round.checks[i];
    try {
      const auto group = make_socket_group(rank, std::move(rows[i].all), kTimeout_s);
      if (!gpu) gpu = std::make_unique<Gpu>(device);
      Member member{
          *group, *gpu, round.options, round.model, round.ranks_a_gpu(), std::move(rows[i].spare),
          out};
      run_member(check, member);
    } catch (const std::exception& e) {
      say_failed(round, check.name, rank, e.what(), out);
    }
  }
}

std::vector<Child> start_processes(const Round& round, const Machine& machine, bool hidden) {
  std::vector<Sockets> sockets;
  for (const Check& check : round.checks) {
    Sockets& s = sockets.emplace_back();
    s.all = make_socket_mesh(round.ranks);
    if (check.spare_sockets) s.survivors = make_socket_mesh(round.ranks - 1);
  }
  std::vector<Child> children;
  for (int r = 0; r < round.ranks; ++r) {
    const int device = r % round.gpus;
    children.push_back(start([&, r, device](int out) {
      if (hidden)
        setenv("CUDA_VISIBLE_DEVICES", machine.uuids[static_cast<std::size_t>(device)].c_str(), 1);
      run_as_rank(round, r, hidden ? 0 : device, sockets, out);
    }));
  }
  for (Sockets& s : sockets) {
    take_row(s.all, -1);
    take_row(s.survivors, -1);
  }
  return children;
}

void add_findings(const Round& round, std::vector<Child>& children, Report& report) {
  for (std::size_t c = 0; c < children.size(); ++c) {
    std::istringstream lines(children[c].text);
    for (std::string line; std::getline(lines, line);) report.add(from_line(line));
    if (children[c].status != 0)
      report.add(
          {"ranks end well",
           round.model,
           static_cast<int>(c),
           1,
           Finding::Result::error,
           fmt::format("child {} ended with wait status {:#x}, expected 0", c, children[c].status),
           {}});
  }
}

}  // namespace

void run_member(const Check& check, Member& member) {
  try {
    check.run(member);
  } catch (const std::exception& e) {
    const Finding finding{
        check.name, member.model, member.rank(), member.ranks(), Finding::Result::error, e.what(),
        {}};
    write_all(member.out, to_line(finding));
  }
}

void Member::say(const std::string& check, const std::string& wrong, const Figures& figures) const {
  say_of(ranks(), check, wrong, figures);
}

void Member::say_of(int how_many, const std::string& check, const std::string& wrong,
                    const Figures& figures) const {
  const auto result = wrong.empty() ? Finding::Result::ok : Finding::Result::wrong;
  write_all(out, to_line({check, model, rank(), how_many, result, wrong, figures}));
}

Machine look_at_machine() {
  std::vector<Child> children;
  children.push_back(start([](int out) {
    nlohmann::json said;
    try {
      std::ostringstream text;
      said["gpus"] = device_count();
      said["uuids"] = nlohmann::json::array();
      for (int d = 0; d < device_count(); ++d) {
        const Capabilities c = query_capabilities(d);
        text << c;
        said["uuids"].push_back(c.uuid);
        said["name"] = c.name;
        said["driver"] =
            fmt::format("{}.{}", c.driver_version / 1000, c.driver_version % 1000 / 10);
      }
      said["text"] = text.str();
    } catch (const Error& e) {
      said["error"] = e.what();
    }
    write_all(out, said.dump());
  }));
  gather(children);
  const auto said = nlohmann::json::parse(children[0].text, nullptr, false);
  if (said.is_discarded())
    raise(ErrorKind::system, "gpu_memory_check: looking at the GPUs, got \"{}\" and status {:#x}",
          children[0].text, children[0].status);
  if (said.contains("error")) raise(ErrorKind::system, "{}", said["error"].get<std::string>());
  const int gpus = said["gpus"];
  if (gpus < 1) raise(ErrorKind::system, "gpu_memory_check: GPUs, got 0, expected 1 or more");
  return {gpus, said["name"], said["driver"], said["uuids"], said["text"]};
}

void run_checks(const std::string& model, const std::vector<Check>& checks, const Options& options,
                const Machine& machine, Report& report) {
  const bool threads = model == "threads";
  Round round{model, {}, options, options.ranks, machine.gpus};
  for (const Check& check : checks) {
    const bool wanted = options.only.empty() || options.only == check.name;
    const bool possible = threads ? check.threads : model == "processes" || check.hidden;
    if (wanted && possible && round.ranks >= check.least_ranks) round.checks.push_back(check);
  }
  if (round.checks.empty()) return;
  std::vector<Child> children;
  if (threads) {
    children.push_back(start([&](int out) { run_as_threads(round, out); }));
  } else {
    children = start_processes(round, machine, model == "hidden");
  }
  gather(children);
  add_findings(round, children, report);
}

}  // namespace tilelace::comm::test
