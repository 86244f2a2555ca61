// SPDX-License-Identifier: Apache-2.0
// What a launcher's variables say, and what is made of values that make no sense.
#include "comm/launch_env.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

#include "tilelace/error.h"

namespace tilelace::comm {
namespace {

using Variables = std::map<std::string, std::string>;

Lookup lookup_in(const Variables& variables) {
  return [variables](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

Variables torchrun() {
  return {{"RANK", "2"},
          {"WORLD_SIZE", "4"},
          {"LOCAL_RANK", "1"},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", "29500"}};
}

Launch launch_of(const Variables& variables) { return read_launch(lookup_in(variables)).value(); }

std::string error_of(const Variables& variables) {
  try {
    read_launch(lookup_in(variables));
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.what();
  }
  return "none";
}

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

TEST(Launch, IsAbsentWithoutALauncher) {
  EXPECT_FALSE(read_launch(lookup_in({})).has_value());
  EXPECT_FALSE(read_launch(lookup_in({{"MASTER_PORT", "1"}})).has_value());
}

TEST(Launch, ReadsWhatTorchrunSets) {
  const Launch launch = launch_of(torchrun());
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.ranks, 4);
  EXPECT_EQ(launch.local_rank, 1);
  const std::string start = "/tmp/tilelace-" + std::to_string(geteuid()) + "-";
  EXPECT_TRUE(launch.directory.starts_with(start)) << launch.directory;
}

TEST(Launch, LocalRankIsTheRankWhereItIsNotSet) {
  Variables variables = torchrun();
  variables.erase("LOCAL_RANK");
  EXPECT_EQ(launch_of(variables).local_rank, 2);
}

TEST(Launch, ReadsWhatMpirunSets) {
  const Launch launch = launch_of({{"OMPI_COMM_WORLD_RANK", "1"},
                                   {"OMPI_COMM_WORLD_SIZE", "2"},
                                   {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                                   {"PMIX_NAMESPACE", "prterun-host-77@1"}});
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.ranks, 2);
  EXPECT_EQ(launch.local_rank, 0);
}

TEST(Launch, PlainNamesGoBeforeThoseOfMpirun) {
  const Launch launch =
      launch_of(with(with(torchrun(), "OMPI_COMM_WORLD_RANK", "0"), "OMPI_COMM_WORLD_SIZE", "64"));
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.ranks, 4);
}

TEST(Launch, RanksOfAJobShareADirectoryThatOtherJobsDoNot) {
  const Launch one = launch_of(torchrun());
  EXPECT_EQ(one.directory, launch_of(with(torchrun(), "RANK", "0")).directory);
  EXPECT_NE(one.directory, launch_of(with(torchrun(), "MASTER_PORT", "29501")).directory);
  EXPECT_NE(one.directory, launch_of(with(torchrun(), "MASTER_ADDR", "10.0.0.1")).directory);
}

TEST(Launch, DirectoryIsTheUsersOwnWhereThereIsOne) {
  const Launch own = launch_of(with(torchrun(), "XDG_RUNTIME_DIR", "/var/tmp"));
  EXPECT_TRUE(own.directory.starts_with("/var/tmp/tilelace-")) << own.directory;
  for (const char* bad : {"", "relative", "/no/such/directory"}) {
    const Launch other = launch_of(with(torchrun(), "XDG_RUNTIME_DIR", bad));
    EXPECT_TRUE(other.directory.starts_with("/tmp/tilelace-")) << other.directory;
  }
  EXPECT_TRUE(launch_of(with(torchrun(), "XDG_RUNTIME_DIR", "/tmp/" + std::string(90, '/')))
                  .directory.starts_with("/tmp/tilelace-"));
}

TEST(Launch, ValuesThatMakeNoSenseAreNamed) {
  EXPECT_EQ(error_of(with(torchrun(), "RANK", "x")),
            "launch: RANK: got \"x\", expected 0..WORLD_SIZE-1");
  for (const char* bad : {"", "4", "-1", "1 ", "1.0", "99999999999"})
    EXPECT_EQ(error_of(with(torchrun(), "RANK", bad)),
              "launch: RANK: got \"" + std::string(bad) + "\", expected 0..WORLD_SIZE-1");
  for (const char* bad : {"", "0", "65", "four"})
    EXPECT_EQ(error_of(with(torchrun(), "WORLD_SIZE", bad)),
              "launch: WORLD_SIZE: got \"" + std::string(bad) + "\", expected 1..64");
  EXPECT_EQ(error_of(with(torchrun(), "LOCAL_RANK", "4")),
            "launch: LOCAL_RANK: got \"4\", expected 0..WORLD_SIZE-1");
  for (const char* bad : {"0", "65536", "http"})
    EXPECT_EQ(error_of(with(torchrun(), "MASTER_PORT", bad)),
              "launch: MASTER_PORT: got \"" + std::string(bad) + "\", expected 1..65535");
}

TEST(Launch, HalfOfTheVariablesIsAnError) {
  Variables variables = torchrun();
  variables.erase("WORLD_SIZE");
  EXPECT_EQ(error_of(variables), "launch: WORLD_SIZE: got nothing, expected 1..64");
  variables = torchrun();
  variables.erase("RANK");
  EXPECT_EQ(error_of(variables), "launch: RANK: got nothing, expected 0..WORLD_SIZE-1");
  variables = torchrun();
  variables.erase("MASTER_PORT");
  EXPECT_EQ(error_of(variables), "launch: MASTER_PORT: got nothing, expected 1..65535");
}

TEST(Launch, RanksOnSeveralHostsAreRefused) {
  EXPECT_EQ(launch_of(with(torchrun(), "LOCAL_WORLD_SIZE", "4")).ranks, 4);
  EXPECT_EQ(
      error_of(with(torchrun(), "LOCAL_WORLD_SIZE", "2")),
      "launch: LOCAL_WORLD_SIZE: got \"2\", expected 4 (WORLD_SIZE 4): all ranks on one host");
}

}  // namespace
}  // namespace tilelace::comm
