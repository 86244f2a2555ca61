// SPDX-License-Identifier: Apache-2.0
#include "tensors.h"

#include <algorithm>
#include <cmath>

#include "core/half.h"

namespace tilelace::conformance {
namespace {

constexpr std::byte kPoisonByte{test::kPoison};
constexpr std::size_t kGuard = 128;

template <DType kType>
struct Half {
  std::uint16_t bits;
  explicit operator float() const { return load_element(&bits, kType, 0); }
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

GuardedTensor::GuardedTensor(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t pad,
                             std::int64_t offset) {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t units = (cols * size + 15) / 16 + pad;
  const std::int64_t stride = units * 16 / size;
  memory_.assign(2 * kGuard + 64 + static_cast<std::size_t>(rows * stride * size), kPoisonByte);
  const auto base = reinterpret_cast<std::uintptr_t>(memory_.data());
  first_ = (base + kGuard + 63) / 64 * 64 - base + static_cast<std::size_t>(offset) * 16;
  view_ = {memory_.data() + first_, dtype, rows, cols, stride};
}

void GuardedTensor::poison() { std::fill(memory_.begin(), memory_.end(), kPoisonByte); }

void GuardedTensor::set(std::int64_t row, std::int64_t col, float value) {
  store_element(view_.data, view_.dtype, row * view_.stride + col, value);
}

float GuardedTensor::get(std::int64_t row, std::int64_t col) const {
  return load_element(view_.data, view_.dtype, row * view_.stride + col);
}

std::byte* GuardedTensor::bytes(std::int64_t row, std::int64_t col) {
  return static_cast<std::byte*>(view_.data) +
         (row * view_.stride + col) * static_cast<std::int64_t>(size_of(view_.dtype));
}

bool GuardedTensor::guards_intact() const {
  const auto size = static_cast<std::int64_t>(size_of(view_.dtype));
  const auto clean = [&](std::size_t begin, std::size_t end) {
    return std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(begin),
                       memory_.begin() + static_cast<std::ptrdiff_t>(end),
                       [](std::byte b) { return b == kPoisonByte; });
  };
  std::size_t at = 0;
  for (std::int64_t r = 0; r < view_.rows; ++r) {
    const auto begin = first_ + static_cast<std::size_t>(r * view_.stride * size);
    if (!clean(at, begin)) return false;
    at = begin + static_cast<std::size_t>(view_.cols * size);
  }
  return clean(at, memory_.size());
}

void fill(GuardedTensor& tensor, const Source& source, std::int64_t first) {
  tensor.poison();
  const std::int64_t cols = tensor.view().cols;
  for (std::int64_t r = 0; r < tensor.view().rows; ++r) {
    const std::int64_t row = first + r;
    for (std::int64_t c = 0; c < cols; ++c) {
      const auto place = static_cast<std::uint64_t>(row * cols + c);
      const bool normal = source.fill == Fill::normal;
      tensor.set(r, c, normal ? test::normal_value(source.seed, place) : 0);
    }
    for (int i = 0; source.fill == Fill::exact && i < source.per_row; ++i) {
      const std::int64_t c = test::sparse_col(source.seed, row, i, cols);
      tensor.set(r, c, test::sparse_value(source.seed, row, c, cols));
    }
  }
}

test::Judgement judge(const test::Judged& j, bool exact) {
  const auto rule = test::rule_of(j, 0, exact, 0);
  switch (j.problem.dtype) {
    case DType::bf16: return judge_as<Half<DType::bf16>>(j, rule);
    case DType::fp16: return judge_as<Half<DType::fp16>>(j, rule);
    default: return judge_as<float>(j, rule);
  }
}

}  // namespace tilelace::conformance
