// SPDX-License-Identifier: Apache-2.0
// What users write for lists, ranges and links.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/parse.h"
#include "tilelace/dtype.h"
#include "tilelace/plan.h"

namespace tilelace::cli {

/// A finite number.
double parse_real(std::string_view what, std::string_view text);

/// "1,7,128", or as nccl-tests begin:end:factor ("128:1024:2" is 128, 256, 512, 1024).
std::vector<std::int64_t> parse_sizes(std::string_view what, std::string_view text);

/// "ag_gemm,gemm_rs"; empty text: all.
std::vector<Op> parse_ops(std::string_view text);
DType parse_dtype(std::string_view text);

/// An emulated wire.
struct Link {
  double bytes_per_s = 0;
  double latency_s = 0;
};
/// "GB/s[,latency_us]"; empty text: none.
Link parse_link(std::string_view text);

/// Whether it is a plan as it is printed, not overrides.
bool is_printed_plan(std::string_view text);
/// Without the line breaks that a print may have.
std::string one_line(std::string_view text);
const char* plan_help();

}  // namespace tilelace::cli
