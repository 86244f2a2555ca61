// SPDX-License-Identifier: Apache-2.0
// Files of rows.
#include <gtest/gtest.h>

#include <string>

#include "row_list.h"
#include "tilelace/error.h"

namespace tilelace::cli {
namespace {

std::string mistake_of(std::string_view text, int ranks = 2) {
  Workload work;
  try {
    read_rows("rows.txt", text, ranks, work);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(RowList, HasAJobALineAndSkipsWhatNoLineAsksFor) {
  Workload work;
  read_rows("rows.txt",
            "# of a layer\n\n"
            "ag_gemm 128,32 256 16,1 tiny.qkv\n"
            "gemm_ar 64 256 3  # without a name\n"
            "ag_gemm 64,64 32 1 tiny.gate_up swiglu",
            2, work);
  EXPECT_EQ(work.sizes, (std::vector<std::int64_t>{1, 3, 16}));
  ASSERT_EQ(work.jobs.size(), 3U);
  EXPECT_EQ(work.jobs[0].gemm.n, (std::vector<std::int64_t>{64, 16}));
  EXPECT_EQ(work.jobs[0].gemm.layer, "tiny.qkv");
  EXPECT_EQ(work.jobs[1].gemm.k, 128);
  EXPECT_EQ(work.jobs[2].gemm.activation, Activation::swiglu);
  const std::vector<bool> skip{false, true, false, true, false, true, false, true, true};
  EXPECT_EQ(work.skip, skip);
}

TEST(RowList, AMistakeNamesItsLine) {
  EXPECT_EQ(mistake_of("\nag_gemm 8 8\n").rfind("--rows: rows.txt, line 2: got 3 words", 0), 0U);
  EXPECT_NE(mistake_of("ag_gemm 8 8 0").find("line 1: got \"0\""), std::string::npos);
  EXPECT_NE(mistake_of("ag_gemm 8 8 1 x swiglu").find("swiglu for ag_gemm with two weights"),
            std::string::npos);
  EXPECT_NE(mistake_of("gemm_rs 8,8 8 1").find("n: got 2 values"), std::string::npos);
  EXPECT_NE(mistake_of("gemm_rs 8 6 1", 4).find("expected a multiple of --tp 4"),
            std::string::npos);
  EXPECT_NE(mistake_of("mlp 8 6 1").find("mlp"), std::string::npos);
  EXPECT_NE(mistake_of("# nothing\n").find("rows.txt has no row"), std::string::npos);
}

}  // namespace
}  // namespace tilelace::cli
