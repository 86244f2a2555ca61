// SPDX-License-Identifier: Apache-2.0
#include "host_place.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/half.h"

namespace tilelace::conformance {
namespace {

constexpr std::size_t kLine = 64;

/// An element as it lies in memory.
template <class Element>
struct Stored {
  typename Element::Word word;
  explicit operator float() const { return Element::to_float(word); }
};

template <class T>
test::Judgement judge_as(const test::Judged& j, const test::Rule& rule) {
  test::Judgement found;
  const std::int64_t stride = j.stride > 0 ? j.stride : rule.n;
  for (std::int64_t row = 0; row < j.problem.m; ++row) {
    for (std::int64_t col = 0; col < rule.n; ++col) {
      const auto e = test::expect<T>(j, rule, row, col);
      const double got = test::as_double<T>(j.out, row * stride + col);
      const double off = got - e.value;
      ++found.checked;
      found.error += off * off;
      found.norm += e.value * e.value;
      const bool other_zero = rule.exact && got == 0 && std::signbit(got);
      if (std::fabs(off) <= test::bound_of(rule, e) && !other_zero) continue;
      if (found.wrong++ == 0)
        found.row = found.first_row = row, found.col = col, found.got = got,
        found.expected = e.value;
      found.last_row = row;
    }
  }
  return found;
}

}  // namespace

std::byte* HostPlace::make(std::size_t bytes) {
  auto& memory = memory_.emplace_back(bytes + kLine, std::byte{test::kPoison});
  std::byte* data = memory.data();
  while (reinterpret_cast<std::uintptr_t>(data) % kLine != 0) ++data;
  return data;
}

void HostPlace::fill(const TensorView& to, const test::Source& source, std::int64_t first_row) {
  for (std::int64_t r = 0; r < to.rows; ++r) {
    const std::int64_t row = first_row + r;
    const auto place = static_cast<std::uint64_t>(row * to.cols);
    const bool normal = source.fill == test::Fill::normal;
    for (std::int64_t c = 0; c < to.cols; ++c)
      conformance::set(
          to, r, c,
          normal ? test::normal_value(source.seed, place + static_cast<std::uint64_t>(c)) : 0);
    for (int i = 0; !normal && i < source.per_row; ++i) {
      const std::int64_t c = test::sparse_col(source.seed, row, i, to.cols);
      conformance::set(to, r, c, test::sparse_value(source.seed, row, c, to.cols));
    }
  }
}

void HostPlace::set(void* data, std::uint8_t value, std::size_t bytes) {
  std::memset(data, value, bytes);
}

test::Difference HostPlace::compare(const void* got, const void* expected, DType type,
                                    std::size_t count) {
  test::Difference d;
  const std::size_t bytes = size_of(type);
  const auto* const x = static_cast<const std::byte*>(got);
  const auto* const y = static_cast<const std::byte*>(expected);
  for (std::size_t i = 0; i < count; ++i) {
    if (std::memcmp(x + i * bytes, y + i * bytes, bytes) == 0) continue;
    if (d.words++ == 0) d.first = static_cast<std::int64_t>(i);
    d.last = static_cast<std::int64_t>(i);
  }
  return d;
}

std::uint64_t HostPlace::count_unpoisoned(const void* data, std::size_t bytes) {
  const auto* const from = static_cast<const std::byte*>(data);
  return bytes -
         static_cast<std::uint64_t>(std::count(from, from + bytes, std::byte{test::kPoison}));
}

std::byte* at(const TensorView& t, std::int64_t row, std::int64_t col) {
  return static_cast<std::byte*>(t.data) +
         (row * t.stride + col) * static_cast<std::int64_t>(size_of(t.dtype));
}

float get(const TensorView& t, std::int64_t row, std::int64_t col) {
  return load_element(t.data, t.dtype, row * t.stride + col);
}

void set(const TensorView& t, std::int64_t row, std::int64_t col, float value) {
  store_element(t.data, t.dtype, row * t.stride + col, value);
}

test::Judgement HostPlace::judge(const test::Judged& j, bool exact) {
  const auto rule = test::rule_of(j, 0, exact, 0);
  return with_host_element(
      j.problem.dtype, [&](auto element) { return judge_as<Stored<decltype(element)>>(j, rule); });
}

}  // namespace tilelace::conformance
