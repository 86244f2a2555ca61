// SPDX-License-Identifier: Apache-2.0
// Computes the exact bits of collectives' results by loops over elements, and draws random calls.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "conformance/values.h"
#include "core/half.h"
#include "plan/collectives/collective.h"

namespace tilelace::gpu_test {

using Bytes = std::vector<std::byte>;

/// The parameters of one call, equal on all ranks.
struct CollectiveCase {
  Collective collective{};
  Item item{};
  Reduction reduction{};
  int ranks = 1;
  std::uint64_t seed = 0;
  std::vector<std::int64_t> counts;  ///< as CollectiveArgs::counts
  std::vector<std::vector<std::int64_t>>
      matrix;  ///< all_to_all: elements [sender][receiver]; empty: counts[0] each
  CollectiveOptions options;
  bool in_place = false;
  int in_off = 0, out_off = 0;  ///< elements by which input and output are off 16-byte alignment

  [[nodiscard]] std::int64_t bytes() const { return static_cast<std::int64_t>(row_of(item).bytes); }
  /// Elements of a rank's shard; all_reduce: all elements.
  [[nodiscard]] std::int64_t count(int rank) const {
    return counts.size() == 1 ? counts[0] : counts[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::int64_t sent(int from, int to) const {
    return matrix.empty() ? counts[0]
                          : matrix[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
  }
  [[nodiscard]] std::int64_t in_count(int rank) const {
    std::int64_t all = 0;
    for (int r = 0; r < ranks; ++r)
      all += collective == Collective::all_to_all ? sent(rank, r) : count(r);
    switch (collective) {
      case Collective::all_reduce:
      case Collective::all_gather: return count(rank);
      case Collective::reduce_scatter:
      case Collective::all_to_all: break;
    }
    return all;
  }
  [[nodiscard]] std::int64_t out_count(int rank) const {
    std::int64_t all = 0;
    for (int r = 0; r < ranks; ++r)
      all += collective == Collective::all_to_all ? sent(r, rank) : count(r);
    switch (collective) {
      case Collective::all_reduce:
      case Collective::reduce_scatter: return count(rank);
      case Collective::all_gather:
      case Collective::all_to_all: break;
    }
    return all;
  }
  /// Elements before a rank's part in the larger tensor, for calls in place.
  [[nodiscard]] std::int64_t before(int rank) const {
    std::int64_t all = 0;
    for (int r = 0; r < rank; ++r) all += count(r);
    return all;
  }
  [[nodiscard]] std::string text() const {
    return fmt::format(
        "{} {} {} ranks {} counts {} seed {}{}{} off {} {} lines {} shots {} workers "
        "{} chunk {}",
        row_of(collective).name, row_of(item).name, name_of(reduction), ranks,
        fmt::join(counts, ","), seed, matrix.empty() ? "" : " matrix", in_place ? " in place" : "",
        in_off, out_off, options.lines ? static_cast<int>(*options.lines) : -1,
        options.shots.value_or(0), options.workers.value_or(0), options.chunk.value_or(0));
  }
};

namespace detail {

template <class T>
void put(Bytes& to, std::int64_t i, T value) {
  std::memcpy(to.data() + i * static_cast<std::int64_t>(sizeof value), &value, sizeof value);
}
template <class T>
T get(const Bytes& from, std::int64_t i) {
  T value;
  std::memcpy(&value, from.data() + i * static_cast<std::int64_t>(sizeof value), sizeof value);
  return value;
}

template <class Host>
void reduce_floats(const CollectiveCase& c, const std::vector<Bytes>& terms, std::int64_t begin,
                   Bytes& out, std::int64_t count) {
  using Word = typename Host::Word;
  for (std::int64_t i = 0; i < count; ++i) {
    float sum = Host::to_float(get<Word>(terms[0], begin + i));
    for (std::size_t r = 1; r < terms.size(); ++r) {
      const float more = Host::to_float(get<Word>(terms[r], begin + i));
      if (c.reduction != Reduction::max)
        sum += more;
      else
        sum = sum > more || std::isnan(sum) ? sum : more;
    }
    if (c.reduction == Reduction::avg) sum /= static_cast<float>(c.ranks);
    put<Word>(out, i, Host::from_float(sum));
  }
}

template <class Word>
void reduce_integers(const CollectiveCase& c, const std::vector<Bytes>& terms, std::int64_t begin,
                     Bytes& out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    Word sum = get<Word>(terms[0], begin + i);
    for (std::size_t r = 1; r < terms.size(); ++r) {
      const Word more = get<Word>(terms[r], begin + i);
      sum = c.reduction == Reduction::max ? std::max(sum, more)
                                          : static_cast<Word>(static_cast<std::uint64_t>(sum) +
                                                              static_cast<std::uint64_t>(more));
    }
    put<Word>(out, i, sum);
  }
}

inline void reduce(const CollectiveCase& c, const std::vector<Bytes>& terms, std::int64_t begin,
                   Bytes& out, std::int64_t count) {
  switch (c.item) {
    case Item::bf16: return reduce_floats<HostBf16>(c, terms, begin, out, count);
    case Item::fp16: return reduce_floats<HostFp16>(c, terms, begin, out, count);
    case Item::fp32: return reduce_floats<HostFp32>(c, terms, begin, out, count);
    case Item::i32: return reduce_integers<std::int32_t>(c, terms, begin, out, count);
    case Item::i64: return reduce_integers<std::int64_t>(c, terms, begin, out, count);
    case Item::u8: return reduce_integers<std::uint8_t>(c, terms, begin, out, count);
  }
}

}  // namespace detail

/// The input of a rank.
inline Bytes input_of(const CollectiveCase& c, int rank) {
  const std::int64_t count = c.in_count(rank);
  Bytes bytes(static_cast<std::size_t>(count * c.bytes()));
  const std::uint64_t seed = c.seed * 64 + static_cast<std::uint64_t>(rank);
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = test::normal_value(seed, static_cast<std::uint64_t>(i));
    const std::uint64_t bits = test::hash(seed * 7919 + static_cast<std::uint64_t>(i));
    switch (c.item) {
      case Item::bf16: detail::put(bytes, i, float_to_bf16(value)); break;
      case Item::fp16: detail::put(bytes, i, float_to_fp16(value)); break;
      case Item::fp32: detail::put(bytes, i, value); break;
      case Item::i32: detail::put(bytes, i, static_cast<std::int32_t>(bits)); break;
      case Item::i64: detail::put(bytes, i, static_cast<std::int64_t>(bits)); break;
      case Item::u8: detail::put(bytes, i, static_cast<std::uint8_t>(bits)); break;
    }
  }
  return bytes;
}

/// The result that a rank must get.
inline Bytes expected_of(const CollectiveCase& c, int rank) {
  std::vector<Bytes> inputs;
  for (int r = 0; r < c.ranks; ++r) inputs.push_back(input_of(c, r));
  Bytes out(static_cast<std::size_t>(c.out_count(rank) * c.bytes()));
  if (row_of(c.collective).sums) {
    const std::int64_t begin = c.collective == Collective::all_reduce ? 0 : c.before(rank);
    detail::reduce(c, inputs, begin, out, c.count(rank));
    return out;
  }
  auto to = out.begin();
  for (int r = 0; r < c.ranks; ++r) {
    std::int64_t at = 0, count = c.count(r);
    if (c.collective == Collective::all_to_all) {
      for (int q = 0; q < rank; ++q) at += c.sent(r, q);
      count = c.sent(r, rank);
    }
    const auto from = inputs[static_cast<std::size_t>(r)].begin() + at * c.bytes();
    to = std::copy(from, from + count * c.bytes(), to);
  }
  return out;
}

/// Draws cases. Half of the counts are edge cases.
class RandomCases {
 public:
  RandomCases(std::uint64_t seed, int ranks, std::int64_t most)
      : random_(seed), ranks_(ranks), most_(most) {}

  CollectiveCase next() {
    CollectiveCase c;
    c.collective = static_cast<Collective>(below(kCollectives.size()));
    c.item = below(2) == 0 ? Item::bf16 : static_cast<Item>(below(kItems.size()));
    c.ranks = ranks_;
    c.seed = random_() % 100000;
    const bool sums = row_of(c.collective).sums;
    if (sums) c.reduction = static_cast<Reduction>(below(row_of(c.item).floats ? 3 : 2) * 2 % 3);
    if (!row_of(c.item).floats && c.reduction == Reduction::avg) c.reduction = Reduction::max;
    const bool listed = c.collective != Collective::all_reduce && below(2) == 0;
    for (int r = 0; r < (listed ? ranks_ : 1); ++r) c.counts.push_back(count());
    if (c.collective == Collective::all_to_all && listed) {
      c.matrix.assign(static_cast<std::size_t>(ranks_), {});
      for (auto& row : c.matrix)
        for (int q = 0; q < ranks_; ++q) row.push_back(below(5) == 0 ? 0 : count());
    }
    if (below(3) == 0) c.options.lines = c.counts.size() == 1 && c.counts[0] * 8 * ranks_ < 200000;
    if (c.options.lines == true && listed) c.options.lines.reset();
    if (row_of(c.collective).shares && below(2) == 0) c.options.shots = 1 + below(2);
    if (below(3) == 0) c.options.workers = 1 + below(5);
    // With few workers, staging has little room for lines (words that hold data and flags).
    if (c.options.workers && c.options.lines == true &&
        c.counts[0] * 8 > plan::kMostChunk * schedule::kUnitBytes)
      c.options.lines = false;
    if (below(3) == 0) c.options.chunk = 16 * (1 + below(300));
    c.in_place = c.collective != Collective::all_to_all && below(3) == 0;
    if (below(3) == 0) c.in_off = below(5);
    if (below(3) == 0) c.out_off = below(5);
    return c;
  }

 private:
  int below(std::size_t n) { return static_cast<int>(random_() % n); }
  std::int64_t count() {
    static constexpr std::int64_t kEdges[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 127, 255, 257, 1021};
    if (below(2) == 0) return kEdges[below(std::size(kEdges))];
    const double scale = std::pow(2.0, -below(8));
    return static_cast<std::int64_t>(
        static_cast<double>(random_() % static_cast<std::uint64_t>(most_)) * scale);
  }

  std::mt19937_64 random_;
  int ranks_;
  std::int64_t most_;
};

}  // namespace tilelace::gpu_test
