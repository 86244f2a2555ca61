// SPDX-License-Identifier: Apache-2.0
// Parses the lists, ranges and links that users write.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/parse.h"
#include "tilelace/dtype.h"
#include "tilelace/plan.h"

namespace tilelace::cli {

/// Parses a finite number.
double parse_real(std::string_view what, std::string_view text);

/// What --m takes, for the help.
inline constexpr const char* kSizesHelp =
    "Rows (tokens), a list 1,7,128 or a range begin:end:factor, end included";

/// Parses a list, "1,7,128", or begin:end:factor, which ends with `end` ("128:1024:2" is 128, 256,
/// 512, 1024; "128:1000:2" is 128, 256, 512, 1000).
std::vector<std::int64_t> parse_sizes(std::string_view what, std::string_view text);

/// Parses begin:end:factor; `number` reads `begin` and `end`.
std::vector<std::int64_t> parse_range(std::string_view what, std::string_view text,
                                      const std::function<std::int64_t(std::string_view)>& number);

/// Parses a list such as "ag_gemm,gemm_rs"; empty text: all ops.
std::vector<Op> parse_ops(std::string_view text);
DType parse_dtype(std::string_view text);

/// An emulated wire.
struct Link {
  double bytes_per_s = 0;
  double latency_s = 0;
};
/// Parses "GB/s[,latency_us]"; empty text: no link.
Link parse_link(std::string_view text);

/// Whether the text of --plan is a plan as printed, rather than KEY=VALUE options.
bool is_printed_plan(std::string_view text);
/// The text with its line breaks removed, since a printed plan may have been broken into lines.
std::string one_line(std::string_view text);
const char* plan_help();

}  // namespace tilelace::cli
