// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/item_sums.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "core/half.h"

namespace tilelace::cpu {
namespace {

/// Of the types that core/half.h converts.
template <class Element>
struct FloatItem {
  using Word = typename Element::Word;
  using Sum = float;
  static Sum load(Word w) { return Element::to_float(w); }
  static Word store(Sum s) { return Element::from_float(s); }
  static Sum plus(Sum a, Sum b) { return a + b; }
  static bool more(Sum a, Sum b) { return a == a && (b > a || b != b); }
};

template <class Integer>
struct IntegerItem {
  using Word = Integer;
  using Sum = Integer;
  static Sum load(Word w) { return w; }
  static Word store(Sum s) { return s; }
  static Sum plus(Sum a, Sum b) {
    using Wrapping = std::make_unsigned_t<Integer>;
    return static_cast<Sum>(static_cast<Wrapping>(a) + static_cast<Wrapping>(b));
  }
  static bool more(Sum a, Sum b) { return b > a; }
};

template <class Of>
void add_items(Reduction reduction, std::span<const std::byte* const> terms, std::int64_t count,
               std::byte* out) {
  using Word = typename Of::Word;
  using Sum = typename Of::Sum;
  constexpr std::int64_t kBlock = 256;
  std::array<Sum, kBlock> sums;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t size = std::min(kBlock, count - begin);
    const auto words = [&](const std::byte* term) {
      return reinterpret_cast<const Word*>(term) + begin;
    };
    const Word* first = words(terms.front());
    for (std::int64_t i = 0; i < size; ++i) sums[i] = Of::load(first[i]);
    for (const std::byte* term : terms.subspan(1)) {
      const Word* next = words(term);
      if (reduction == Reduction::max) {
        for (std::int64_t i = 0; i < size; ++i)
          if (Of::more(sums[i], Of::load(next[i]))) sums[i] = Of::load(next[i]);
      } else {
        for (std::int64_t i = 0; i < size; ++i) sums[i] = Of::plus(sums[i], Of::load(next[i]));
      }
    }
    if constexpr (std::is_same_v<Sum, float>) {
      if (reduction == Reduction::avg)
        for (std::int64_t i = 0; i < size; ++i) sums[i] /= static_cast<float>(terms.size());
    }
    Word* to = reinterpret_cast<Word*>(out) + begin;
    for (std::int64_t i = 0; i < size; ++i) to[i] = Of::store(sums[i]);
  }
}

}  // namespace

void add_up(Item item, Reduction reduction, std::span<const std::byte* const> terms,
            std::int64_t count, std::byte* out) {
  switch (item) {
    case Item::bf16: return add_items<FloatItem<HostBf16>>(reduction, terms, count, out);
    case Item::fp16: return add_items<FloatItem<HostFp16>>(reduction, terms, count, out);
    case Item::fp32: return add_items<FloatItem<HostFp32>>(reduction, terms, count, out);
    case Item::i32: return add_items<IntegerItem<std::int32_t>>(reduction, terms, count, out);
    case Item::i64: return add_items<IntegerItem<std::int64_t>>(reduction, terms, count, out);
    case Item::u8: return add_items<IntegerItem<std::uint8_t>>(reduction, terms, count, out);
  }
}

}  // namespace tilelace::cpu
