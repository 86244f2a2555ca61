// SPDX-License-Identifier: Apache-2.0
#include "check/moe_map.h"

#include <fmt/ranges.h>

#include <utility>

#include "check/dice.h"

namespace tilelace::check {
namespace {

using schedule::Index;
using schedule::MoeMap;

/// A map's sections, with bounds.
struct Sections {
  const MoeMap& s;
  std::span<const std::int32_t> map;
  [[nodiscard]] Index at(Index section, Index i) const {
    return map[static_cast<std::size_t>(section + i)];
  }
  [[nodiscard]] Index begin(Index e) const { return at(MoeMap::begins(), e); }
  [[nodiscard]] Index row(Index pair) const { return at(s.row_of(), pair); }
  [[nodiscard]] Index source(Index row) const { return at(s.source_of(), row); }
};

std::optional<std::string> wrong_prefix(const Sections& x, std::span<const std::int64_t> ids) {
  if (x.begin(0) != 0) return fmt::format("the first row is {}, expected 0", x.begin(0));
  for (Index e = 0; e < x.s.here; ++e) {
    Index rows = 0;
    for (const std::int64_t id : ids) rows += id == x.s.first + e && id < x.s.experts ? 1 : 0;
    if (x.begin(e + 1) - x.begin(e) != rows)
      return fmt::format("expert {} begins at row {}, the next at {}, expected {} rows",
                         x.s.first + e, x.begin(e), x.begin(e + 1), rows);
  }
  return std::nullopt;
}

std::optional<std::string> wrong_pair(const Sections& x, Index pair, Index id) {
  const Index row = x.row(pair);
  if (id < x.s.first || id >= x.s.first + x.s.here || id >= x.s.experts)
    return row == -1 ? std::nullopt
                     : std::optional(fmt::format("pair {} has row {}, expected none", pair, row));
  const Index expert = id - x.s.first;
  if (row < x.begin(expert) || row >= x.begin(expert + 1))
    return fmt::format("pair {} has row {}, expected a row of expert {}: {} to below {}", pair, row,
                       id, x.begin(expert), x.begin(expert + 1));
  if (x.source(row) != pair)
    return fmt::format("pair {} has row {}, but the source of the row is {}", pair, row,
                       x.source(row));
  return std::nullopt;
}

/// Pairs ascend within an expert; -1 beyond the last row.
std::optional<std::string> wrong_order(const Sections& x) {
  for (Index e = 0; e < x.s.here; ++e)
    for (Index r = x.begin(e) + 1; r < x.begin(e + 1); ++r)
      if (x.source(r) <= x.source(r - 1))
        return fmt::format("row {} has source {}, expected more than {}, that of the row before", r,
                           x.source(r), x.source(r - 1));
  for (Index r = x.begin(x.s.here); r < x.s.pairs(); ++r)
    if (x.source(r) != -1)
      return fmt::format("row {} has source {}, expected -1 beyond the last row", r, x.source(r));
  return std::nullopt;
}

std::optional<std::string> wrong_words(const Sections& x, std::span<const std::int64_t> ids) {
  std::uint32_t hash = 0;
  Index first = 0;
  for (Index i = x.s.pairs() - 1; i >= 0; --i) {
    const Index id = ids[static_cast<std::size_t>(i)];
    if (id < -1 || id >= x.s.experts) first = i + 1;
    hash += schedule::id_hash(i, id);
  }
  if (x.at(x.s.wrong(), 0) != first)
    return fmt::format("word `wrong` is {}, expected {}", x.at(x.s.wrong(), 0), first);
  if (static_cast<std::uint32_t>(x.at(x.s.hash(), 0)) != hash)
    return "the hash is not that of the ids";
  return std::nullopt;
}

/// Swaps two rows, with their pairs.
void swap_rows(const MoeMap& s, std::span<std::int32_t> map, Index a, Index b) {
  auto& source_a = map[static_cast<std::size_t>(s.source_of() + a)];
  auto& source_b = map[static_cast<std::size_t>(s.source_of() + b)];
  std::swap(map[static_cast<std::size_t>(s.row_of() + source_a)],
            map[static_cast<std::size_t>(s.row_of() + source_b)]);
  std::swap(source_a, source_b);
}

}  // namespace

std::optional<std::string> wrong_in_map(const MoeMap& s, std::span<const std::int64_t> ids,
                                        std::span<const std::int32_t> map) {
  if (std::ssize(ids) != s.pairs() || std::ssize(map) != s.words())
    return fmt::format("got {} ids and {} words, expected {} and {}", ids.size(), map.size(),
                       s.pairs(), s.words());
  const Sections x{s, map};
  if (auto text = wrong_prefix(x, ids)) return text;
  for (Index i = 0; i < s.pairs(); ++i)
    if (auto text = wrong_pair(x, i, ids[static_cast<std::size_t>(i)])) return text;
  if (auto text = wrong_order(x)) return text;
  return wrong_words(x, ids);
}

std::string_view name_of(MapMutant m) {
  switch (m) {
    case MapMutant::unstable_order: return "unstable_order";
    case MapMutant::late_prefix: return "late_prefix";
    case MapMutant::dropped_row: return "dropped_row";
    case MapMutant::doubled_row: return "doubled_row";
    case MapMutant::foreign_row: return "foreign_row";
    case MapMutant::unseen_id: return "unseen_id";
    case MapMutant::stale_tail: return "stale_tail";
    case MapMutant::old_hash: return "old_hash";
  }
  return "?";
}

bool bend_map(MapMutant mutant, const MoeMap& s, std::span<std::int32_t> map) {
  const auto word = [&](Index at) -> std::int32_t& { return map[static_cast<std::size_t>(at)]; };
  const Index rows = word(s.here);
  switch (mutant) {
    case MapMutant::unstable_order:
      for (Index e = 0; e < s.here; ++e) {
        if (word(e + 1) - word(e) < 2) continue;
        swap_rows(s, map, word(e), word(e) + 1);
        return true;
      }
      return false;
    case MapMutant::late_prefix:
      if (rows == 0 || s.here < 2) return false;
      ++word(1);
      return true;
    case MapMutant::dropped_row:
      if (rows == 0) return false;
      word(s.row_of() + word(s.source_of())) = -1;
      return true;
    case MapMutant::doubled_row:
      if (rows < 2) return false;
      word(s.row_of() + word(s.source_of() + 1)) = 0;
      return true;
    case MapMutant::foreign_row:
      for (Index i = 0; i < s.pairs(); ++i) {
        if (word(s.row_of() + i) != -1) continue;
        word(s.row_of() + i) = 0;
        return true;
      }
      return false;
    case MapMutant::unseen_id: return std::exchange(word(s.wrong()), 0) != 0;
    case MapMutant::stale_tail:
      if (rows == s.pairs()) return false;
      word(s.source_of() + rows) = 0;
      return true;
    case MapMutant::old_hash: ++word(s.hash()); return true;
  }
  return false;
}

namespace {

using Ids = std::vector<std::int64_t>;
using Words = std::vector<std::int32_t>;

Words filled(const MoeMap& s, const Ids& ids) {
  Words map(static_cast<std::size_t>(s.words()), -77);
  schedule::fill_moe_map(s, ids.data(), map.data());
  return map;
}

void look(const MoeMap& s, const Ids& ids, MapSweep& sweep) {
  ++sweep.maps;
  if (!sweep.finding.empty()) return;
  const auto wrong = wrong_in_map(s, ids, filled(s, ids));
  if (!wrong) return;
  sweep.finding = fmt::format("{} experts, here {} from {}, top_k {}, ids {}: {}", s.experts,
                              s.here, s.first, s.top_k, fmt::join(ids, " "), *wrong);
}

/// Ids count from -1 to `experts`, which names none.
bool next(Ids& ids, Index experts) {
  for (auto& id : ids) {
    if (id < experts) {
      ++id;
      return true;
    }
    id = -1;
  }
  return false;
}

void look_at_all(Index m, Index k, Index experts, MapSweep& sweep) {
  Ids ids(static_cast<std::size_t>(m * k), -1);
  do {
    for (Index first = 0; first <= experts; ++first)
      for (Index here = first == 0 ? 0 : 1; first + here <= experts; ++here)
        look({m, k, experts, first, here}, ids, sweep);
  } while (next(ids, experts));
}

/// Some with a hot expert, some with ids that name none.
std::pair<MoeMap, Ids> drawn(Dice& dice, int most_experts, int most_tokens) {
  const int experts = dice.between(1, most_experts), k = dice.between(1, 8);
  const int m = dice.between(0, most_tokens), first = dice.below(experts);
  const int here = dice.between(0, experts - first), hot = dice.below(experts);
  const int odd = dice.one_in(3) ? 20 : 1 << 30;
  Ids ids(static_cast<std::size_t>(m * k));
  for (auto& id : ids) {
    id = dice.one_in(3) ? hot : dice.between(-1, experts - 1);
    if (dice.one_in(odd)) id = dice.between(-5, experts + 5);
  }
  return {{m, k, experts, first, here}, ids};
}

}  // namespace

MapSweep sweep_maps(std::int64_t random, std::uint64_t seed) {
  MapSweep sweep;
  for (Index m = 0; m <= 4; ++m)
    for (Index k = 1; k <= 2; ++k)
      for (Index experts = 1; experts <= 3; ++experts) look_at_all(m, k, experts, sweep);
  for (std::int64_t i = 0; i < random; ++i) {
    Dice dice(seed, i);
    const auto [map, ids] = drawn(dice, 64, 60);
    look(map, ids, sweep);
  }
  return sweep;
}

std::vector<MapMutantResult> run_map_mutants() {
  std::vector<MapMutantResult> all;
  for (const MapMutant mutant : kMapMutants) {
    MapMutantResult r{mutant, 0, 0};
    for (std::int64_t i = 0; i < 200; ++i) {
      Dice dice(11, i);
      const auto [s, ids] = drawn(dice, 6, 9);
      Words map = filled(s, ids);
      if (!bend_map(mutant, s, map)) continue;
      ++r.applied;
      r.caught += wrong_in_map(s, ids, map) ? 1 : 0;
    }
    all.push_back(r);
  }
  return all;
}

}  // namespace tilelace::check
