// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "sizes.h"
#include "tilelace/error.h"

namespace tilelace::cli {
namespace {

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.what();
  }
  return "no error";
}

using Sizes = std::vector<std::int64_t>;

TEST(CliSizes, ListsAndRanges) {
  EXPECT_EQ(parse_sizes("--m", "128"), Sizes({128}));
  EXPECT_EQ(parse_sizes("--m", "1,7,0"), Sizes({1, 7, 0}));
  EXPECT_EQ(parse_sizes("--m", "128:1024:2"), Sizes({128, 256, 512, 1024}));
  EXPECT_EQ(parse_sizes("--m", "5:100:3"), Sizes({5, 15, 45, 100}));
  EXPECT_EQ(parse_sizes("--m", "1:1099511627776:1099511627776").size(), 2U);
}

TEST(CliSizes, BrokenSizes) {
  EXPECT_EQ(error_of([] { parse_sizes("--m", "1,,2"); }), "--m: \"1,,2\" has an empty part");
  EXPECT_EQ(error_of([] { parse_sizes("--m", ""); }), "--m: \"\" has an empty part");
  EXPECT_EQ(error_of([] { parse_sizes("--m", "12x"); }),
            "--m: got \"12x\", expected a whole number from 0 to 1099511627776");
  EXPECT_EQ(error_of([] { parse_sizes("--m", "-1"); }),
            "--m: got \"-1\", expected a whole number from 0 to 1099511627776");
  EXPECT_EQ(error_of([] { parse_sizes("--m", "99999999999999999999"); }),
            "--m: got \"99999999999999999999\", expected a whole number from 0 to 1099511627776");
  EXPECT_EQ(error_of([] { parse_sizes("--m", "1:2"); }),
            "--m: got \"1:2\", expected begin:end:factor");
  EXPECT_EQ(error_of([] { parse_sizes("--m", "1:8:1"); }),
            "--m: got \"1\", expected a whole number from 2 to 1099511627776");
  EXPECT_EQ(error_of([] { parse_sizes("--m", "8:4:2"); }),
            "--m: got \"8:4:2\", expected an end that is not less than the begin");
}

TEST(CliSizes, Links) {
  EXPECT_EQ(parse_link("").bytes_per_s, 0);
  EXPECT_EQ(parse_link("2").bytes_per_s, 2e9);
  EXPECT_DOUBLE_EQ(parse_link("0.5,10").latency_s, 10e-6);
  EXPECT_EQ(error_of([] { parse_link("0"); }),
            "--link: bandwidth: got 0 GB/s, expected more than 0 and at most 1e6");
  EXPECT_EQ(error_of([] { parse_link("nan"); }), "--link: got \"nan\", expected a number");
  EXPECT_EQ(error_of([] { parse_link("1,-3"); }), "--link: latency: got -3 us, expected 0 to 1e6");
  EXPECT_EQ(error_of([] { parse_link("1,2,3"); }),
            "--link: got \"1,2,3\", expected GB/s[,latency_us]");
}

TEST(CliSizes, OpsAndTypes) {
  EXPECT_EQ(parse_ops("").size(), 3U);
  EXPECT_EQ(parse_ops("gemm_ar,ag_gemm"), std::vector<Op>({Op::gemm_ar, Op::ag_gemm}));
  EXPECT_EQ(parse_dtype("fp16"), DType::fp16);
  EXPECT_EQ(error_of([] { parse_ops("gemm"); }),
            "op: got \"gemm\", expected ag_gemm, gemm_rs, gemm_ar");
  EXPECT_EQ(error_of([] { parse_dtype("fp8"); }),
            "--dtype: got \"fp8\", expected bf16, fp16, fp32");
}

TEST(CliSizes, PlanOptions) {
  const PlanOptions o = parse_plan_options(
      "--plan",
      "path=medium,transport=pull,route=two_level,local_ranks=2,blocks=3,chunk=40,partials=fp32,"
      "straddle=1,tile_m=64,tile_n=96");
  PlanOptions want;
  want.path = Path::medium;
  want.transport = Transport::pull;
  want.route = RouteKind::two_level;
  want.local_ranks = 2;
  want.blocks = 3;
  want.chunk_rows = 40;
  want.partials = DType::fp32;
  want.straddle = true;
  want.tile_m = 64;
  want.tile_n = 96;
  EXPECT_EQ(o, want);
  EXPECT_EQ(parse_plan_options("--plan", ""), PlanOptions{});
  EXPECT_EQ(parse_plan_options("--plan", "transport=multimem").transport, Transport::multimem);
  EXPECT_EQ(error_of([] { parse_plan_options("--plan", "transport=add"); }),
            "--plan transport: got \"add\", expected push, pull, store, nccl, multimem");
  EXPECT_EQ(error_of([] { parse_plan_options("--plan", "path"); }),
            "--plan: got \"path\", expected KEY=VALUE");
  EXPECT_EQ(error_of([] { parse_plan_options("--plan", "path=fast"); }),
            "--plan path: got \"fast\", expected fused, medium, unfused");
  EXPECT_EQ(error_of([] { parse_plan_options("--plan", "speed=9"); }),
            "--plan: got \"speed\", expected path, transport, route, blocks, chunk, tile_m, "
            "tile_n, partials, straddle or local_ranks");
}

}  // namespace
}  // namespace tilelace::cli
