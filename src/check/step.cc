// SPDX-License-Identifier: Apache-2.0
#include "check/step.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "tilelace/transport_table.h"

namespace tilelace::check {

std::string_view name_of(Verb verb) {
  static constexpr std::array<std::string_view, 22> kNames = {
      "signal",        "signal_header", "wait",     "admit",    "compute",      "store",
      "stage",         "push",          "pull",     "deliver",  "reduce",       "partial",
      "store_partial", "store_result",  "park",     "unpark",   "send_partial", "fetch_partial",
      "send_result",   "fetch_result",  "put_line", "take_line"};
  return kNames.at(static_cast<std::size_t>(verb));
}

std::string to_string(const Step& s) {
  const std::string_view verb = name_of(s.verb);
  const std::string peer = s.peer >= 0 ? fmt::format(", peer {}", s.peer) : "";
  if (s.verb == Verb::admit) return "admit";
  if (s.verb == Verb::wait) return fmt::format("wait flag {}", s.at);
  if (s.verb == Verb::signal) return fmt::format("signal flag {}{}", s.at, peer);
  if (s.verb == Verb::signal_header) return fmt::format("signal_header{}", peer);
  if (s.col >= 0) {
    return fmt::format("{} tile rows {}..{} col {}{}", verb, s.rows.begin, s.rows.end, s.col, peer);
  }
  return fmt::format("{} chunk {} rows {}..{} of shard {}{}", verb, s.at, s.rows.begin, s.rows.end,
                     s.owner, peer);
}

FlagName flag_name(const schedule::AgGemm& s, Index flag) {
  const Index chunks = s.max_chunks();
  if (flag < 0 || flag >= s.num_flags()) return {fmt::format("flag {}", flag), -1};
  const Index area = flag / chunks;
  const int source = static_cast<int>(area % s.ranks());
  const int from = source == s.rank ? s.rank : s.route.parent(source, s.rank);
  if (area >= s.ranks()) {
    return {fmt::format("offered(shard {}, chunk {})", source, flag % chunks), from};
  }
  // Under pull the rank itself fetches, so its own copy role raises the flag.
  return {fmt::format("landed(shard {}, chunk {})", source, flag % chunks),
          row_of(s.transport).pulls ? s.rank : from};
}

FlagName flag_name(const schedule::GemmReduce& s, Index flag) {
  if (flag < 0 || flag >= s.num_flags()) return {fmt::format("flag {}", flag), -1};
  const bool done = flag < s.partial(0, 0, 0, 0);
  const bool result = flag >= s.result(0, 0, 0);
  const Index unit = done ? s.max_tiles() : s.max_chunks();
  const Index local = flag - (done ? 0 : result ? s.result(0, 0, 0) : s.partial(0, 0, 0, 0));
  const Index q = local / unit % s.ranks();
  const Index b = local / unit / s.ranks() % s.blocks;
  const int p = static_cast<int>(local / unit / s.ranks() / s.blocks);
  const int shard = static_cast<int>(q);
  const std::string_view part = done || row_of(s.transport).by_workers() ? "tile" : "chunk";
  if (result) {
    const int parent = shard == s.rank ? s.rank : s.route.parent(shard, s.rank);
    return {fmt::format("result(block {}, shard {}, {} {})", b, q, part, local % unit),
            row_of(s.transport).pulls ? s.rank : parent};
  }
  return {fmt::format("{}(rank {}, block {}, shard {}, {} {})", done ? "done" : "partial", p, b, q,
                      part, local % unit),
          p};
}

FlagName partial_name(Index of_source, Index flag) {
  const auto source = static_cast<int>(flag / of_source);
  return {fmt::format("partial(rank {}, tile {})", source, flag % of_source), source};
}

FlagName flag_name(const schedule::ReduceRows& s, Index flag) {
  if (flag == s.num_flags()) return {"the own product", s.rank};
  if (flag < 0 || flag > s.num_flags()) return {fmt::format("flag {}", flag), -1};
  const auto owner = static_cast<int>(flag / s.max_chunks);
  return {fmt::format("sum(shard {}, chunk {})", owner, flag % s.max_chunks), owner};
}

FlagName flag_name(const schedule::TileSums& s, Index flag) {
  const Index count = flag / s.ranks;
  if (flag < 0 || count >= schedule::num_counts(s.tiles()))
    return {fmt::format("flag {}", flag), -1};
  const auto source = static_cast<int>(flag % s.ranks);
  const bool given = count % 2 == schedule::given_count(0);
  return {fmt::format("{}(tile {}, rank {})", given ? "given" : "summed", count / 2, source),
          source};
}

FlagName flag_name(const schedule::SharedTiles& s, Index flag) {
  const schedule::ShareOrder& o = s.order();
  if (flag < 0 || flag >= s.num_flags()) return {fmt::format("flag {}", flag), -1};
  if (flag >= s.over(0)) return {fmt::format("the product of worker {}", flag - s.over(0)), o.rank};
  const Index each = o.num_partials() / o.ranks;
  const Index tile = flag % o.num_partials();
  const auto from = static_cast<int>(tile / each);
  return {fmt::format("{}(rank {}, tile {})", flag < s.flags.first_shared ? "partial" : "result",
                      from, tile % each),
          from};
}

}  // namespace tilelace::check
