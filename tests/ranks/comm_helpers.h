// SPDX-License-Identifier: Apache-2.0
// Runs ranks as threads and as forked children, for the tests of comm.
#pragma once
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/group.h"
#include "tilelace/error.h"

namespace tilelace::comm::test {

struct Caught {
  std::optional<ErrorKind> kind;
  std::string text;
  [[nodiscard]] bool says(std::string_view part) const {
    return text.find(part) != std::string::npos;
  }
};

template <class Work>
Caught catch_error(const Work& work) {
  try {
    work();
  } catch (const Error& e) {
    return {e.kind(), e.what()};
  }
  return {};
}

inline void run_threads(int ranks, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&work, r] {
      try {
        work(r);
      } catch (const std::exception& e) {
        ADD_FAILURE() << "rank " << r << ": " << e.what();
      }
    });
  for (auto& t : threads) t.join();
}

/// A check in a child process, where assertions of GoogleTest do not reach the parent. If it fails,
/// prints its place and ends the child.
#define CHILD_CHECK(condition)                                             \
  do {                                                                     \
    if (!(condition)) {                                                    \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      _exit(1);                                                            \
    }                                                                      \
  } while (false)

inline pid_t fork_child(const std::function<void()>& work) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  alarm(30);
  try {
    work();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "child: %s\n", e.what());
    _exit(2);
  }
  _exit(0);
}

inline int status_of(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

/// Runs `work` in a child process per rank. The test fails if a child fails.
inline void run_processes(int ranks, const std::function<void(int)>& work) {
  std::vector<pid_t> pids;
  for (int r = 0; r < ranks; ++r) pids.push_back(fork_child([&] { work(r); }));
  for (int r = 0; r < ranks; ++r)
    EXPECT_EQ(status_of(pids[static_cast<std::size_t>(r)]), 0) << "rank " << r;
}

/// As run_processes, but each child is a member of a group over a socket mesh.
inline void run_group(int ranks, const std::function<void(Group&)>& work) {
  auto mesh = make_socket_mesh(ranks);
  std::vector<pid_t> pids;
  for (int r = 0; r < ranks; ++r)
    pids.push_back(fork_child([&] {
      const auto group = make_socket_group(r, take_row(mesh, r), 10);
      work(*group);
    }));
  take_row(mesh, -1);
  for (int r = 0; r < ranks; ++r)
    EXPECT_EQ(status_of(pids[static_cast<std::size_t>(r)]), 0) << "rank " << r;
}

inline std::size_t count_entries(const char* directory) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    (void)entry;
    ++count;
  }
  return count;
}
inline std::size_t open_fds() { return count_entries("/proc/self/fd"); }

/// An unused path in a new temporary directory, which the destructor removes.
class TemporaryPath {
 public:
  TemporaryPath() {
    std::string pattern = std::filesystem::temp_directory_path() / "tilelace-comm-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) std::perror("mkdtemp");
    root_ = pattern;
  }
  ~TemporaryPath() { std::filesystem::remove_all(root_); }
  TemporaryPath(const TemporaryPath&) = delete;
  TemporaryPath& operator=(const TemporaryPath&) = delete;
  [[nodiscard]] std::string path() const { return root_ + "/meet"; }

 private:
  std::string root_;
};

class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tilelace::comm::test
