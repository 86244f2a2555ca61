// SPDX-License-Identifier: Apache-2.0
// Ranks as processes that die, stop or lose their parent: the command ends, and no child is left.
#include <gtest/gtest.h>

#include <chrono>

#include "cli_fixture.h"

namespace tilelace::cli {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::vector<pid_t> children_of(pid_t pid) {
  const std::string p = std::to_string(pid);
  std::istringstream in(read_whole("/proc/" + p + "/task/" + p + "/children"));
  std::vector<pid_t> pids;
  for (pid_t child = 0; in >> child;) pids.push_back(child);
  return pids;
}

/// Neither running nor stopped; a zombie that waits for its reaper is gone.
bool gone(pid_t pid) {
  const std::string stat = read_whole("/proc/" + std::to_string(pid) + "/stat");
  const auto after_name = stat.rfind(')');
  return after_name == std::string::npos || stat.compare(after_name, 3, ") Z") == 0;
}

bool all_gone(const std::vector<pid_t>& pids, double seconds) {
  const auto begin = Clock::now();
  for (const pid_t pid : pids) {
    while (!gone(pid)) {
      if (since(begin) > seconds) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  return true;
}

class CliProcess : public testing::Test {
 protected:
  CliProcess()
      : command_({"run", "--model", "minilm-l6", "--tp", "3", "--m", "64", "--op", "gemm_rs",
                  "--processes", "--iterations", "100000", "--timeout", "2"}) {
    for (int i = 0; i < 1000 && children_.size() < 3; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      children_ = children_of(command_.pid());
    }
    std::this_thread::sleep_for(std::chrono::seconds(1));  // into the calls
  }
  void SetUp() override { ASSERT_EQ(children_.size(), 3U); }

  RunningCommand command_;
  std::vector<pid_t> children_;
};

TEST_F(CliProcess, ADeadRankEndsTheCommand) {
  kill(children_[1], SIGKILL);
  EXPECT_EQ(command_.wait(5), 3);
  EXPECT_NE(command_.err().find("rank 1 ended with signal 9 (KILL)"), std::string::npos)
      << command_.err();
  EXPECT_TRUE(all_gone(children_, 1));
}

TEST_F(CliProcess, AStoppedRankEndsTheCommandWithinTheBound) {
  kill(children_[1], SIGSTOP);
  EXPECT_EQ(command_.wait(15), 3);
  EXPECT_TRUE(all_gone(children_, 1));
}

TEST_F(CliProcess, AllRanksStopped) {
  for (const pid_t c : children_) kill(c, SIGSTOP);
  EXPECT_EQ(command_.wait(15), 3);
  EXPECT_NE(command_.err().find("was stopped for longer than --timeout"), std::string::npos)
      << command_.err();
  EXPECT_TRUE(all_gone(children_, 1));
}

TEST_F(CliProcess, ASignalEndsTheChildrenToo) {
  kill(children_[0], SIGSTOP);
  kill(command_.pid(), SIGTERM);
  EXPECT_EQ(command_.wait(5), 128 + SIGTERM);
  EXPECT_TRUE(all_gone(children_, 1));
}

TEST_F(CliProcess, ChildrenDoNotOutliveAKilledParent) {
  kill(children_[0], SIGSTOP);
  kill(command_.pid(), SIGKILL);
  EXPECT_EQ(command_.wait(5), 128 + SIGKILL);
  EXPECT_TRUE(all_gone(children_, 5));
}

}  // namespace
}  // namespace tilelace::cli
