// SPDX-License-Identifier: Apache-2.0
#include "sizes.h"

#include <array>
#include <charconv>
#include <cmath>

#include "core/check.h"
#include "tilelace/op_table.h"

namespace tilelace::cli {
namespace {

constexpr std::size_t kMaxSizes = 256;

}  // namespace

double parse_real(std::string_view what, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  require(whole && std::isfinite(value), "{}: got \"{}\", expected a number", what, text);
  return value;
}

std::vector<std::int64_t> parse_range(std::string_view what, std::string_view text,
                                      const std::function<std::int64_t(std::string_view)>& number) {
  const std::size_t one = text.find(':');
  const std::size_t two = text.find(':', one + 1);
  require(two != std::string_view::npos && text.find(':', two + 1) == std::string_view::npos,
          "{}: got \"{}\", expected begin:end:factor", what, text);
  const std::int64_t begin = number(text.substr(0, one));
  const std::int64_t end = number(text.substr(one + 1, two - one - 1));
  require(end >= begin, "{}: got \"{}\", expected an end that is not less than the begin", what,
          text);
  const std::int64_t factor = parse_number(what, text.substr(two + 1), 2, kMaxRows);
  std::vector<std::int64_t> sizes;
  for (std::int64_t s = begin; s < end; s *= factor) {
    sizes.push_back(s);
    if (s > end / factor) break;
  }
  sizes.push_back(end);
  return sizes;
}

std::vector<std::int64_t> parse_sizes(std::string_view what, std::string_view text) {
  if (text.find(':') != std::string_view::npos)
    return parse_range(
        what, text, [&](std::string_view word) { return parse_number(what, word, 1, kMaxRows); });
  std::vector<std::int64_t> sizes;
  for (const auto& part : split_list(what, text)) {
    sizes.push_back(parse_number(what, part, 0, kMaxRows));
  }
  require(sizes.size() <= kMaxSizes, "{}: got {} sizes, expected at most {}", what, sizes.size(),
          kMaxSizes);
  return sizes;
}

std::vector<Op> parse_ops(std::string_view text) {
  const auto words = words_of_rows(op_table(), &OpRow::op);
  std::vector<Op> ops;
  if (text.empty())
    for (const auto& word : words) ops.push_back(word.second);
  else
    for (const auto& part : split_list("op", text)) ops.push_back(parse_word("op", part, words));
  return ops;
}

DType parse_dtype(std::string_view text) {
  return parse_word("--dtype", text, words_of_rows(kDTypes, &DTypeRow::type));
}

Link parse_link(std::string_view text) {
  Link link;
  if (text.empty()) return link;
  const auto parts = split_list("--link", text);
  require(parts.size() <= 2, "--link: got \"{}\", expected GB/s[,latency_us]", text);
  const double rate = parse_real("--link", parts[0]);
  require(rate > 0 && rate <= 1e6,
          "--link: bandwidth: got {} GB/s, expected more than 0 and at most 1e6", parts[0]);
  link.bytes_per_s = rate * 1e9;
  if (parts.size() == 2) {
    const double latency = parse_real("--link", parts[1]);
    require(latency >= 0 && latency <= 1e6, "--link: latency: got {} us, expected 0 to 1e6",
            parts[1]);
    link.latency_s = latency * 1e-6;
  }
  return link;
}

bool is_printed_plan(std::string_view text) {
  return text.find(' ') != std::string_view::npos && text.find('=') == std::string_view::npos;
}

std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\n';
    if (!blank) line += c;
    if (blank && !line.empty() && line.back() != ' ') line += ' ';
  }
  return line;
}

const char* plan_help() {
  return R"(--plan KEY=VALUE[,KEY=VALUE] fixes choices, the planner makes the others:
  path=fused|medium|unfused            one schedule; a GEMM per shard; one after the other
  route=mesh|ring|two_level            who sends to whom (two_level: local_ranks=N per node)
  transport=push|pull|store|nccl       who moves the bytes (nccl: GPU ranks, ag_gemm)
  transport=multimem                   the switch adds: GPU ranks, gemm_ar, with --multicast
  chunk=ROWS                           rows of one transfer
  tile_m=ROWS, tile_n=COLUMNS          what a worker computes at a time
  straddle=0|1                         whether tiles cross the borders of shards
  blocks=N                             gemm_ar on CPU ranks: super-blocks of rows
  partials=fp32|DTYPE                  type of partial sums on the wire (fp32: CPU ranks)
Several --plan are tried one by one; bash makes four of --plan=chunk={32,64},transport={push,store}
What a printed plan says, and how to choose one: docs/plans.md.
)";
}

}  // namespace tilelace::cli
