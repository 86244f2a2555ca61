// SPDX-License-Identifier: Apache-2.0
// tilelace launch: what ranks are told, and that nothing of them stays.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "cli_fixture.h"
#include "comm/launch_env.h"
#include "core/env.h"

namespace tilelace::cli {
namespace {

/// /bin/sh on three ranks; `first` comes before its script.
class Launch : public RunningCommand {
 public:
  explicit Launch(const std::string& script, std::vector<std::string> first = {})
      : RunningCommand(arguments(script, std::move(first))) {}

  /// Its standard output, as soon as that has this many lines.
  std::vector<std::string> lines(std::size_t count) {
    std::vector<std::string> found;
    for (int i = 0; i < 1000 && found.size() < count; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      found.clear();
      std::istringstream in(out());
      for (std::string line; std::getline(in, line);) found.push_back(line);
    }
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  static std::vector<std::string> arguments(const std::string& script,
                                            std::vector<std::string> first) {
    std::vector<std::string> all{"launch", "--ranks", "3"};
    all.insert(all.end(), first.begin(), first.end());
    all.insert(all.end(), {"--", "/bin/sh", "-c", script});
    return all;
  }
};

bool gone(const std::string& pid) { return kill(std::stoi(pid), 0) != 0; }

bool all_gone(const std::vector<std::string>& pids) {
  return !pids.empty() && std::all_of(pids.begin(), pids.end(), gone);
}

// Prints the pids of the rank's shell and of a child that nobody told to end.
constexpr const char* kTwoPids = "sleep 60 & echo \"$$\n$!\"; ";

TEST(CliLaunch, RanksAreToldWhoTheyAre) {
  Launch command(
      "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR; echo port $MASTER_PORT "
      ">&2",
      {"--tag"});
  ASSERT_EQ(command.wait(20), 0) << command.err();
  const std::vector<std::string> expected{"[0] 0 3 0 3 127.0.0.1", "[1] 1 3 1 3 127.0.0.1",
                                          "[2] 2 3 2 3 127.0.0.1"};
  EXPECT_EQ(command.lines(3), expected);
  std::istringstream err(command.err());
  std::vector<std::string> ports;
  for (std::string tag, word, port; err >> tag >> word >> port;) ports.push_back(port);
  ASSERT_EQ(ports.size(), 3U) << command.err();
  EXPECT_GT(std::stoi(ports[0]), 1023);
  EXPECT_TRUE(ports[0] == ports[1] && ports[1] == ports[2]) << command.err();
}

TEST(CliLaunch, ProgramsGetTheirArgumentsAsTheyStand) {
  for (const char* mark : {"", "-- "}) {
    const Finished f =
        run_command(std::string("launch --ranks 1 ") + mark + "echo --ranks 7 -- --help [a,b] run");
    EXPECT_EQ(f.code, 0) << f.err;
    EXPECT_EQ(f.out, "--ranks 7 -- --help [a,b] run\n");
  }
}

TEST(CliLaunch, UnfinishedLinesArePrintedToo) {
  Launch command("printf \"a\\nlast\"", {"--tag"});
  ASSERT_EQ(command.wait(20), 0) << command.err();
  const std::vector<std::string> expected{"[0] a",    "[0] last", "[1] a",
                                          "[1] last", "[2] a",    "[2] last"};
  EXPECT_EQ(command.lines(6), expected);
}

TEST(CliLaunch, AFailureEndsTheOthersAndIsTheExitCode) {
  Launch command(std::string(kTwoPids) + "[ $RANK = 1 ] && exit 7; wait");
  EXPECT_EQ(command.wait(20), 7);
  EXPECT_NE(command.err().find(
                "tilelace: launch: rank 1 of 3 failed: exit status 7; ended the 2 still running\n"),
            std::string::npos)
      << command.err();
  EXPECT_TRUE(all_gone(command.lines(1))) << command.out();
}

TEST(CliLaunch, ARankThatIsKilledCountsAsFailed) {
  Launch command("[ $RANK = 2 ] && kill -9 $$; sleep 60");
  EXPECT_EQ(command.wait(20), 128 + SIGKILL);
  EXPECT_NE(command.err().find("rank 2 of 3 failed: ended by signal 9 (KILL)"), std::string::npos)
      << command.err();
}

TEST(CliLaunch, WhoIgnoresTheRequestIsKilledAfterTheGrace) {
  Launch command(std::string("trap '' TERM; ") + kTwoPids + "[ $RANK = 1 ] && exit 5; wait; wait",
                 {"--grace", "0.2"});
  EXPECT_EQ(command.wait(20), 5);
  EXPECT_TRUE(all_gone(command.lines(1))) << command.out();
}

TEST(CliLaunch, StoppedRanksEndToo) {
  Launch command("[ $RANK = 1 ] && { sleep 0.2; exit 4; }; echo $$; kill -STOP $$",
                 {"--grace", "0.2"});
  EXPECT_EQ(command.wait(20), 4);
  EXPECT_TRUE(all_gone(command.lines(2))) << command.out();
}

TEST(CliLaunch, CtrlCEndsAll) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Launch command(std::string(kTwoPids) + "wait");
    const auto pids = command.lines(6);
    kill(command.pid(), signal);
    EXPECT_EQ(command.wait(20), 128 + signal) << command.err();
    EXPECT_EQ(pids.size(), 6U);
    EXPECT_TRUE(all_gone(pids)) << command.out();
  }
}

TEST(CliLaunch, WhatARankLeavesRunningEndsWithIt) {
  Launch command(kTwoPids);
  EXPECT_EQ(command.wait(20), 0) << command.err();
  const auto pids = command.lines(6);
  EXPECT_EQ(pids.size(), 6U);
  EXPECT_TRUE(all_gone(pids)) << command.out();
}

TEST(CliLaunch, TheMeetingPlaceIsGoneAfterAKill) {
  // given: ranks that wait, and the directory that they would meet in, not empty
  Launch command("[ $RANK = 0 ] && echo $MASTER_PORT; sleep 60");
  const auto port = command.lines(1);
  ASSERT_EQ(port.size(), 1U);
  const auto launch = comm::read_launch([&](const char* name) -> std::optional<std::string> {
    const std::string n = name;
    if (n == "RANK") return "0";
    if (n == "WORLD_SIZE") return "3";
    if (n == "MASTER_ADDR") return "127.0.0.1";
    return n == "MASTER_PORT" ? port[0] : env::launch_variable(name);
  });
  ASSERT_EQ(mkdir(launch->directory.c_str(), 0700), 0) << launch->directory;
  std::ofstream(launch->directory + "/rank-0.sock") << "left";
  // do
  kill(command.pid(), SIGINT);
  EXPECT_EQ(command.wait(20), 128 + SIGINT);
  // expect
  struct stat info {};
  EXPECT_NE(stat(launch->directory.c_str(), &info), 0) << launch->directory;
}

TEST(CliLaunch, HelpTeaches) {
  const Finished f = run_command("launch --help", 20);
  EXPECT_EQ(f.code, 0);
  for (const char* part : {"PROGRAM", "MASTER_PORT", "SIGKILL", "Examples:", "Exit status: "})
    EXPECT_NE(f.out.find(part), std::string::npos) << part << f.out;
}

struct BadLaunch {
  const char* name;
  const char* line;
  const char* text;
};

class CliBadLaunch : public testing::TestWithParam<BadLaunch> {};

TEST_P(CliBadLaunch, ExitsTwoWithAText) {
  const BadLaunch& bad = GetParam();
  const Finished f = run_command(bad.line, 20);
  EXPECT_EQ(f.code, 2) << f.err;
  EXPECT_NE(f.err.find(bad.text), std::string::npos) << f.err;
}

const BadLaunch kBadLaunches[] = {
    {"NoRanks", "launch true", "--ranks is required"},
    {"ZeroRanks", "launch --ranks 0 true",
     "--ranks: got \"0\", expected a whole number from 1 to 64"},
    {"NoProgram", "launch --ranks 2",
     "tilelace: launch: PROGRAM is missing: give it last, as in tilelace launch --ranks 4 "
     "./my_program\n"},
    {"NoProgramAfterTheMark", "launch --ranks 2 --", "launch: PROGRAM is missing"},
    {"UnknownOption", "launch --ranks 2 --rank 3 true",
     "tilelace: launch: there is no option --rank; did you mean --ranks?\n"},
    {"NoSuchProgram", "launch --ranks 3 /nonexistent/program",
     "tilelace: launch: cannot start /nonexistent/program: No such file or directory\n"},
    {"NotAProgram", "launch --ranks 3 /etc/passwd", "cannot start /etc/passwd: Permission denied"},
    {"NegativeGrace", "launch --ranks 1 --grace -1 true",
     "--grace: got \"-1\", expected a number from 0 to 3600"},
};

INSTANTIATE_TEST_SUITE_P(All, CliBadLaunch, testing::ValuesIn(kBadLaunches),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tilelace::cli
