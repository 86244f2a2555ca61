// SPDX-License-Identifier: Apache-2.0
// Runs the ranks of both kinds of group as threads of a test, so that the test can see all ranks.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/group.h"
#include "tilelace/error.h"

namespace tilelace::comm::test {

constexpr double kBound_s = 10;

struct Caught {
  std::optional<ErrorKind> kind;
  std::string text;
  [[nodiscard]] bool says(const std::string& part) const {
    return text.find(part) != std::string::npos;
  }
};

inline Caught catch_error(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return {e.kind(), e.what()};
  }
  return {};
}

using Work = std::function<void(Group&)>;

inline void run_on_threads(int ranks, const std::function<std::unique_ptr<Group>(int)>& make,
                           const Work& work) {
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        const auto group = make(r);
        work(*group);
      } catch (const std::exception& e) {
        ADD_FAILURE() << "rank " << r << ": " << e.what();
      }
    });
  for (auto& t : threads) t.join();
}

/// Runs the work twice, with ranks that are threads: first with thread groups, then with socket
/// groups. (Outside of tests, the ranks of a socket group are processes.)
inline void run_both(int ranks, const Work& work) {
  auto groups = make_thread_groups(ranks);
  run_on_threads(
      ranks, [&](int r) { return std::move(groups[static_cast<std::size_t>(r)]); }, work);
  const auto mesh = make_socket_mesh(ranks);
  run_on_threads(
      ranks,
      [&](int r) { return make_socket_group(r, mesh[static_cast<std::size_t>(r)], kBound_s); },
      work);
}

inline std::size_t open_descriptors() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    (void)entry;
    ++count;
  }
  return count;
}

}  // namespace tilelace::comm::test
