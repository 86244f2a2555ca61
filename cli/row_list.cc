// SPDX-License-Identifier: Apache-2.0
#include "row_list.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/read_text.h"
#include "tilelace/op_table.h"

namespace tilelace::cli {
namespace {

constexpr std::size_t kMostRowBytes = std::size_t{1} << 20;
constexpr std::int64_t kMostSize = std::int64_t{1} << 40;
constexpr std::string_view kForm = "OP N[,N...] K M[,M...] [NAME [swiglu]]";

std::vector<std::int64_t> numbers(const std::string& where, const std::string& text) {
  std::vector<std::int64_t> values;
  for (const std::string& part : split_list(where, text))
    values.push_back(parse_number(where, part, 1, kMostSize));
  return values;
}

struct Line {
  Job job;
  std::vector<std::int64_t> m;
};

Line line_of(const std::string& where, const std::vector<std::string>& words, int ranks) {
  require(words.size() >= 4 && words.size() <= 6, "{}: got {} words, expected 4 to 6: {}", where,
          words.size(), kForm);
  const auto ops = parse_ops(words[0]);
  require(ops.size() == 1, "{}: got {} ops, expected one per row", where, ops.size());
  const auto n = numbers(where, words[1]);
  Line line;
  line.m = numbers(where, words[3]);
  model::LayerGemm& gemm = line.job.gemm;
  gemm = plain_gemm(ops[0], n, parse_number(where, words[2], 1, kMostSize), ranks);
  if (words.size() > 4) gemm.layer = words[4];
  if (words.size() < 6) return line;
  require(words[5] == "swiglu" && row_of(gemm.op).gathers && n.size() == 2,
          "{}: got \"{}\" with {} weights, expected no activation, or swiglu for ag_gemm with two "
          "weights",
          where, words[5], n.size());
  gemm.gated = true;
  gemm.activation = Activation::swiglu;
  return line;
}

}  // namespace

void read_rows(std::string_view file, std::string_view text, int ranks, Workload& work) {
  std::istringstream lines{std::string(text)};
  std::vector<Line> all;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    const std::vector<std::string> found{std::istream_iterator<std::string>(words), {}};
    if (!found.empty())
      all.push_back(line_of(fmt::format("--rows: {}, line {}", file, number), found, ranks));
  }
  require(!all.empty(), "--rows: {} has no row; a row is a line {}", file, kForm);
  work.config.layers = 1;
  for (const Line& line : all) work.sizes.insert(work.sizes.end(), line.m.begin(), line.m.end());
  std::sort(work.sizes.begin(), work.sizes.end());
  work.sizes.erase(std::unique(work.sizes.begin(), work.sizes.end()), work.sizes.end());
  for (Line& line : all) {
    work.jobs.push_back(std::move(line.job));
    for (const std::int64_t m : work.sizes)
      work.skip.push_back(std::find(line.m.begin(), line.m.end(), m) == line.m.end());
  }
}

void load_rows(const std::filesystem::path& file, int ranks, Workload& work) {
  read_rows(file.string(), read_text("--rows", file, kMostRowBytes), ranks, work);
}

}  // namespace tilelace::cli
