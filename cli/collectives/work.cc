// SPDX-License-Identifier: Apache-2.0
#include "collectives/work.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/check.h"
#include "sizes.h"

namespace tilelace::cli {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
constexpr std::size_t kMostByteSizes = 256;
/// Parts of the whole begin at multiples of it.
constexpr std::int64_t kPartBytes = 16;
constexpr std::string_view kByteUnits = "KMG";

}  // namespace

CollectiveShape shape_of(Collective op, std::int64_t bytes, DType dtype, int ranks, int rank) {
  const auto item = static_cast<std::int64_t>(size_of(dtype));
  const bool whole = row_of(op).shares;  // every rank has all of it
  const std::int64_t parts = whole ? 1 : ranks;
  std::int64_t part = bytes / parts;
  part -= part % (whole || part < kPartBytes ? item : kPartBytes);
  require(part > 0, "--size: got {} bytes, expected at least {}: one {} element{}", bytes,
          parts * item, name_of(dtype), whole ? "" : " per rank");
  CollectiveShape s{op, part / item, 0, 0, 0, 0, part * parts};
  const std::int64_t all = s.count * parts;
  s.in = s.out = all;
  switch (op) {
    case Collective::all_reduce:
    case Collective::all_to_all: break;
    case Collective::all_gather:
      s.in = s.count;
      s.in_at = rank * s.count;
      break;
    case Collective::reduce_scatter:
      s.out = s.count;
      s.out_at = rank * s.count;
      break;
  }
  return s;
}

CollectiveOptions options_for(const CollectiveWork& work, Collective op) {
  CollectiveOptions o = work.options;
  const auto shares = [](Collective c) { return row_of(c).shares; };
  if (!shares(op) && std::ranges::any_of(work.ops, shares)) o.shots.reset();
  return o;
}

std::string names_of_collectives() {
  std::vector<std::string_view> names;
  for (const CollectiveRow& row : kCollectives) names.push_back(row.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::size_t count_collectives(std::string_view ops) {
  const auto parts = split_list("bench: op", ops);
  return static_cast<std::size_t>(std::ranges::count_if(parts, [](const std::string& part) {
    return std::ranges::count(kCollectives, part, &CollectiveRow::name) > 0;
  }));
}

std::vector<Collective> parse_collectives(std::string_view ops) {
  std::vector<Collective> all;
  for (const std::string& part : split_list("bench: op", ops)) {
    const auto* const row = std::ranges::find(kCollectives, part, &CollectiveRow::name);
    require(row != kCollectives.end(), "bench: op: got \"{}\", expected {}", part,
            names_of_collectives());
    all.push_back(row->collective);
  }
  return all;
}

std::int64_t parse_bytes(std::string_view what, std::string_view text) {
  const std::size_t unit = text.empty() ? std::string_view::npos : kByteUnits.find(text.back());
  if (unit == std::string_view::npos) {
    const bool digits = text.find_first_not_of("0123456789") == std::string_view::npos;
    require(digits && !text.empty(), "{}: got \"{}\", expected bytes, such as 4096, 8K, 1M or 2G",
            what, text);
    return parse_number(what, text, 1, kMostBytes);
  }
  const std::size_t shift = 10 * (unit + 1);
  return parse_number(what, text.substr(0, text.size() - 1), 1, kMostBytes >> shift) << shift;
}

std::vector<std::int64_t> parse_byte_sizes(std::string_view what, std::string_view text) {
  if (text.find(':') != std::string_view::npos)
    return parse_range(what, text, [&](std::string_view word) { return parse_bytes(what, word); });
  std::vector<std::int64_t> sizes;
  for (const std::string& part : split_list(what, text)) sizes.push_back(parse_bytes(what, part));
  require(sizes.size() <= kMostByteSizes, "{}: got {} sizes, expected at most {}", what,
          sizes.size(), kMostByteSizes);
  return sizes;
}

std::string show_size(std::int64_t bytes) {
  for (std::size_t unit = kByteUnits.size(); unit > 0; --unit) {
    const std::int64_t one = std::int64_t{1} << (10 * unit);
    if (bytes > 0 && bytes % one == 0)
      return fmt::format("{}{}", bytes / one, kByteUnits[unit - 1]);
  }
  return fmt::format("{}", bytes);
}

CollectiveOptions parse_collective_options(std::string_view text) {
  CollectiveOptions o;
  for (const auto& [key, value] : split_pairs("--plan", text)) {
    const std::string what = "--plan " + key;
    if (key == "lines")
      o.lines = parse_number(what, value, 0, 1) == 1;
    else if (key == "shots")
      o.shots = static_cast<int>(parse_number(what, value, 1, 2));
    else if (key == "workers")
      o.workers = static_cast<int>(parse_number(what, value, 1, 4096));
    else if (key == "chunk")
      o.chunk = parse_bytes(what, value);
    else
      raise(ErrorKind::usage, "--plan: got \"{}\", expected lines, shots, workers or chunk", key);
  }
  return o;
}

const char* collective_plan_help() {
  return R"(Overrides for collectives (--plan KEY=VALUE[,KEY=VALUE]):
  lines=0|1                            units that carry the call's number; 0: chunks with flags
  shots=1|2                            all_reduce: everyone adds all; owners add and send the sum
  workers=N, chunk=BYTES               CTAs at most; what a worker moves at a time
)";
}

Item item_of(DType dtype) {
  const auto* const row = std::ranges::find(kItems, name_of(dtype), &ItemRow::name);
  require(row != kItems.end(), "--dtype: collectives do not support {}: give another type",
          name_of(dtype));
  return row->item;
}

}  // namespace tilelace::cli
