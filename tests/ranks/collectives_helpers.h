// SPDX-License-Identifier: Apache-2.0
// Collectives with random elements. Each rank's result has guards around it, and is compared bit by
// bit with the result of a plain loop.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/half.h"
#include "tilelace/tilelace.h"

namespace tilelace::collectives_test {

using Counts = std::vector<std::int64_t>;

/// The parameters of one call, equal on all ranks.
struct Case {
  Collective collective = Collective::all_reduce;
  Item item = Item::fp32;
  Reduction reduction = Reduction::sum;
  Counts counts = {0};         ///< counts of the call; all_to_all: empty
  std::vector<Counts> matrix;  ///< all_to_all: elements [sender][receiver]
  bool in_place = false;
  bool shifted = false;  ///< whether data is off its alignment by one element
  CollectiveOptions options;
  std::uint32_t seed = 0;

  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(row_of(item).bytes); }
  [[nodiscard]] std::int64_t part(int rank) const {
    return counts.size() == 1 ? counts[0] : counts[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::int64_t before(int rank) const {
    std::int64_t sum = 0;
    for (int r = 0; r < rank; ++r) sum += part(r);
    return sum;
  }
  [[nodiscard]] std::int64_t sent(int from, int to) const {
    return matrix[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("{} of {} {}, counts {} {}{}, shots {} workers {} chunk {} seed {}",
                       row_of(collective).name, row_of(item).name, name_of(reduction),
                       fmt::join(counts, ","), in_place ? "in place" : "",
                       shifted ? " shifted" : "", options.shots.value_or(0),
                       options.workers.value_or(0), options.chunk.value_or(0), seed);
  }
};

/// Element i of a rank's input, as bits.
inline std::uint64_t word_of(const Case& c, int rank, std::int64_t i) {
  std::uint64_t h = (c.seed + 1) * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(rank) * 7919U +
                    static_cast<std::uint64_t>(i) * 0xd1342543de82ef95U;
  h = (h ^ h >> 32U) * 0xd6e8feb86659fd93U;
  h ^= h >> 29U;
  if (!row_of(c.item).floats || !row_of(c.collective).sums) return h;
  // Only max gets NaNs, because the bits of a sum of two NaNs are not defined.
  const bool none = c.reduction == Reduction::max && h % 31 == 0;
  const float value = none ? std::numeric_limits<float>::quiet_NaN()
                           : (static_cast<float>(h % 20011U) - 10005.0F) / 977.0F;
  if (c.item == Item::fp32) return std::bit_cast<std::uint32_t>(value);
  return c.item == Item::bf16 ? float_to_bf16(value) : float_to_fp16(value);
}

inline float float_of(Item item, std::uint64_t word) {
  if (item == Item::fp32) return std::bit_cast<float>(static_cast<std::uint32_t>(word));
  const auto half = static_cast<std::uint16_t>(word);
  return item == Item::bf16 ? bf16_to_float(half) : fp16_to_float(half);
}

/// The reduction of all ranks' elements i, as bits.
inline std::uint64_t sum_of(const Case& c, int ranks, std::int64_t i) {
  std::uint64_t whole = word_of(c, 0, i);
  float sum = row_of(c.item).floats ? float_of(c.item, whole) : 0;
  for (int p = 1; p < ranks; ++p) {
    const std::uint64_t word = word_of(c, p, i);
    if (row_of(c.item).floats) {
      const float next = float_of(c.item, word);
      if (c.reduction != Reduction::max)
        sum += next;
      else if (!std::isnan(sum) && (std::isnan(next) || next > sum))
        sum = next;
    } else if (c.reduction == Reduction::sum) {
      whole += word;
    } else {
      const unsigned shift = 64 - 8 * static_cast<unsigned>(c.bytes());
      const bool more = c.item == Item::u8 ? (word & 255U) > (whole & 255U)
                                           : static_cast<std::int64_t>(word << shift) >
                                                 static_cast<std::int64_t>(whole << shift);
      if (more) whole = word;
    }
  }
  if (!row_of(c.item).floats) return whole;
  if (c.reduction == Reduction::avg) sum /= static_cast<float>(ranks);
  if (c.item == Item::fp32) return std::bit_cast<std::uint32_t>(sum);
  return c.item == Item::bf16 ? float_to_bf16(sum) : float_to_fp16(sum);
}

/// The expected result of a rank, as bits.
inline std::vector<std::uint64_t> expected_of(const Case& c, int rank, int ranks) {
  std::vector<std::uint64_t> all;
  const auto add = [&](int source, std::int64_t first, std::int64_t count) {
    for (std::int64_t i = first; i < first + count; ++i)
      all.push_back(source < 0 ? sum_of(c, ranks, i) : word_of(c, source, i));
  };
  switch (c.collective) {
    case Collective::all_reduce: add(-1, 0, c.counts[0]); break;
    case Collective::reduce_scatter: add(-1, c.before(rank), c.part(rank)); break;
    case Collective::all_gather:
      for (int p = 0; p < ranks; ++p) add(p, 0, c.part(p));
      break;
    case Collective::all_to_all:
      for (int p = 0; p < ranks; ++p) {
        std::int64_t first = 0;
        for (int q = 0; q < rank; ++q) first += c.sent(p, q);
        add(p, first, c.sent(p, rank));
      }
      break;
  }
  return all;
}

/// Memory for elements, between guards.
class Elements {
 public:
  /// If not `guarded`, no guard follows the elements, so that a sanitizer sees reads beyond them.
  Elements(const Case& c, std::int64_t count, bool guarded = true)
      : item_(static_cast<std::size_t>(c.bytes())),
        first_(kGuard + (c.shifted ? item_ : 0)),
        bytes_(static_cast<std::size_t>(count) * item_),
        memory_(first_ + bytes_ + (guarded ? kGuard : 0), kPoison) {}
  [[nodiscard]] std::byte* at(std::int64_t i) {
    return memory_.data() + first_ + static_cast<std::size_t>(i) * item_;
  }
  void put(std::int64_t i, std::uint64_t word) { std::memcpy(at(i), &word, item_); }
  /// Describes the first element that differs or a guard that was written; "" if there is neither.
  std::string difference(std::int64_t first, const std::vector<std::uint64_t>& words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (std::memcmp(at(first + static_cast<std::int64_t>(i)), &words[i], item_) == 0) continue;
      std::uint64_t have = 0;
      std::memcpy(&have, at(first + static_cast<std::int64_t>(i)), item_);
      return fmt::format("element {} of {}: got {:x}, expected {:x}", i, words.size(), have,
                         words[i] & (~std::uint64_t{0} >> (64 - 8 * item_)));
    }
    const auto poisoned = [](std::byte b) { return b == kPoison; };
    const bool intact =
        std::all_of(memory_.begin(), memory_.begin() + offset(), poisoned) &&
        std::all_of(memory_.begin() + offset() + static_cast<std::ptrdiff_t>(bytes_), memory_.end(),
                    poisoned);
    return intact ? "" : "a guard was written";
  }

 private:
  static constexpr std::byte kPoison{0xa5};
  static constexpr std::size_t kGuard = 64;
  [[nodiscard]] std::ptrdiff_t offset() const { return static_cast<std::ptrdiff_t>(first_); }

  std::size_t item_, first_, bytes_;
  std::vector<std::byte> memory_;
};

/// Numbers of elements of a rank's input and result.
struct Lengths {
  std::int64_t in = 0, out = 0;
};

inline Lengths lengths_of(const Case& c, int rank, int ranks) {
  switch (c.collective) {
    case Collective::all_reduce: return {c.counts[0], c.counts[0]};
    case Collective::all_gather: return {c.part(rank), c.before(ranks)};
    case Collective::reduce_scatter: return {c.before(ranks), c.part(rank)};
    case Collective::all_to_all: break;
  }
  Lengths l;
  for (int q = 0; q < ranks; ++q) l.in += c.sent(rank, q), l.out += c.sent(q, rank);
  return l;
}

/// Makes a rank's call and returns what is wrong with its result, or "".
inline std::string wrong_result(Communicator& member, const Case& c) {
  const int rank = member.rank(), ranks = member.size();
  const auto [in_count, out_count] = lengths_of(c, rank, ranks);
  Elements in(c, c.in_place ? std::max(in_count, out_count) : in_count, c.in_place);
  Elements other(c, out_count);
  Elements& out = c.in_place ? in : other;
  const std::int64_t own = c.counts.empty() ? 0 : c.before(rank);
  const std::int64_t in_at = c.in_place && c.collective == Collective::all_gather ? own : 0;
  const std::int64_t out_at = c.in_place && c.collective == Collective::reduce_scatter ? own : 0;
  std::vector<std::uint64_t> brought;
  for (std::int64_t i = 0; i < in_count; ++i) brought.push_back(word_of(c, rank, i));
  for (std::int64_t i = 0; i < in_count; ++i)
    in.put(in_at + i, brought[static_cast<std::size_t>(i)]);
  Counts counts = c.counts, takes;
  for (int q = 0; q < ranks && c.collective == Collective::all_to_all; ++q)
    counts.push_back(c.sent(rank, q)), takes.push_back(c.sent(q, rank));

  collect(member, c.collective, {in.at(in_at), out.at(out_at), c.item, c.reduction, counts, takes},
          c.options);

  const auto expected = expected_of(c, rank, ranks);
  std::string wrong = out.difference(out_at, expected);
  if (!c.in_place && wrong.empty()) wrong = in.difference(0, brought);
  if (c.in_place && wrong.empty() && c.collective == Collective::reduce_scatter) {
    for (std::size_t i = 0; i < expected.size(); ++i)
      brought[static_cast<std::size_t>(own) + i] = expected[i];
    wrong = in.difference(0, brought);
  }
  return wrong.empty() ? "" : fmt::format("rank {} of {}: {}: {}", rank, ranks, c.text(), wrong);
}

/// Draws random cases. Equal seeds give equal cases on all ranks.
class Draw {
 public:
  Draw(int ranks, std::uint32_t seed) : ranks_(ranks), rng_(seed) {}

  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(n));
  }
  std::int64_t count() {
    constexpr std::array<std::int64_t, 14> kCounts{0, 0,  1,  2,  3,  5,   7,
                                                   8, 16, 31, 64, 97, 251, 1009};
    return kCounts[static_cast<std::size_t>(below(kCounts.size()))];
  }
  Case next() {
    Case c;
    c.collective = kCollectives[static_cast<std::size_t>(below(kCollectives.size()))].collective;
    c.item = kItems[static_cast<std::size_t>(below(kItems.size()))].item;
    c.reduction = static_cast<Reduction>(below(3));
    return next(c);
  }
  /// Draws a case with c's collective, item and, if they allow it, reduction (default: sum).
  Case next(Case c) {
    const CollectiveRow& row = row_of(c.collective);
    if (!row.sums || (c.reduction == Reduction::avg && !row_of(c.item).floats))
      c.reduction = Reduction::sum;
    const bool pairs = c.collective == Collective::all_to_all;
    const bool even = c.collective == Collective::all_reduce || below(2) == 0;
    c.counts.assign(1, count());
    if (!even) {
      c.counts.clear();
      for (int r = 0; r < ranks_; ++r) c.counts.push_back(count());
    }
    if (pairs) {
      c.counts.clear();
      for (int r = 0; r < ranks_; ++r) {
        auto& to = c.matrix.emplace_back();
        for (int q = 0; q < ranks_; ++q) to.push_back(count());
      }
    }
    c.in_place = !pairs && below(3) == 0;
    c.shifted = below(2) == 0;
    if (row.shares && below(3) != 0) c.options.shots = 1 + static_cast<int>(below(2));
    if (below(2) == 0) c.options.workers = 1 + static_cast<int>(below(3));
    if (below(2) == 0) c.options.chunk = 1 + below(256) + (pairs ? 64 : 0);
    if (below(4) == 0) c.options.lines = below(2) == 0;
    c.seed = static_cast<std::uint32_t>(below(1 << 30));
    return c;
  }

 private:
  int ranks_;
  std::mt19937 rng_;
};

}  // namespace tilelace::collectives_test
