// SPDX-License-Identifier: Apache-2.0
// `tilelace doctor --report`: what strangers may see of a machine.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "cli_fixture.h"
#include "private_text.h"

namespace tilelace::cli {
namespace {

const PrivateNames kNames{"/srv/people/ada", "node7", "ada"};

TEST(PrivateText, HomesAreShortened) {
  EXPECT_EQ(without_homes("/srv/people/ada/x:/srv/people/adam", kNames), "~/x:/srv/people/adam");
  EXPECT_EQ(without_homes("/home/eve/a /home/bob", kNames), "~/a ~");
  EXPECT_EQ(without_homes("/usr/home", {"/", "", ""}), "/usr/home");
}

TEST(PrivateText, NamesAndAddressesOfValuesAreReplaced) {
  EXPECT_EQ(shown_value("NCCL_COMM_ID", "10.1.2.33:900", kNames), "ADDRESS:900");
  EXPECT_EQ(shown_value("NCCL_COMM_ID", "[fe80::1%eth0]:900", kNames), "ADDRESS:900");
  EXPECT_EQ(shown_value("NCCL_X", "node7.lab.example:9,node71,node7", kNames),
            "HOST:9,node71,HOST");
  EXPECT_EQ(shown_value("TILELACE_DATA", "/scratch/ada/t", kNames), "/scratch/USER/t");
  EXPECT_EQ(shown_value("NCCL_IB_TIMEOUT", "22", kNames), "22");
  EXPECT_EQ(shown_value("TORCH_HUB_TOKEN", "abc", kNames), "(not shown)");
}

class CliDoctor : public testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : {"NCCL_DEBUG", "NCCL_COMM_ID", "TILELACE_TUNING", "LD_LIBRARY_PATH"})
      unsetenv(name);
    setenv("HOME", home_.c_str(), 1);
  }
  std::string home_ = getenv("HOME") == nullptr ? "" : getenv("HOME");
};

TEST_F(CliDoctor, ReportHasWhatAnIssueAsksFor) {
  setenv("HOME", "/srv/people/ada", 1);
  setenv("NCCL_DEBUG", "INFO", 1);
  setenv("TILELACE_TUNING", "/srv/people/ada/plans.json", 1);
  std::array<char, 256> host{};
  ASSERT_EQ(gethostname(host.data(), host.size() - 1), 0);
  setenv("NCCL_COMM_ID", host.data(), 1);

  const Finished f = run_command("doctor --report");

  EXPECT_EQ(f.code, 0) << f.err;
  for (const char* part : {"tilelace           0.", ", commit ", "\nbuild              ", ", GEMM ",
                           "\nsystem   ", ", glibc ", "\nCPU ", "\ncores ", "\nGPU ranks ",
                           "\nNCCL_DEBUG=INFO\n", "\nTILELACE_TUNING=~/plans.json\n"})
    EXPECT_NE(f.out.find(part), std::string::npos) << part << "\n" << f.out;
  EXPECT_EQ(f.out.find("/srv/people"), std::string::npos) << f.out;
  const bool named = std::string(host.data()) != "localhost";
  EXPECT_EQ(f.out.find("\nNCCL_COMM_ID=HOST\n") != std::string::npos, named) << f.out;
}

TEST_F(CliDoctor, WithoutReportIsShort) {
  setenv("NCCL_DEBUG", "INFO", 1);
  const Finished f = run_command("doctor");
  EXPECT_EQ(f.code, 0) << f.err;
  EXPECT_EQ(f.out.find("NCCL_DEBUG"), std::string::npos) << f.out;
}

TEST_F(CliDoctor, SaysWhatLinksGpus) {
  setenv("LD_LIBRARY_PATH", kFakeNvml, 1);
  const Finished f = run_command("doctor --report");
  EXPECT_EQ(f.code, 0) << f.err;
  for (const char* line :
       {"machine's GPU 0    Fake 0, 80.0 GiB, 1.0 GiB free, 12 NVLinks up; to 1: NVLink; to 2: "
        "PCIe, another socket\n",
        "machine's GPU 2    Fake 2, 80.0 GiB, 1.0 GiB free, 0 NVLinks up; to 0 1: PCIe, another "
        "socket\n"})
    EXPECT_NE(f.out.find(line), std::string::npos) << line << f.out;
}

}  // namespace
}  // namespace tilelace::cli
