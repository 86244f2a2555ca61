// SPDX-License-Identifier: Apache-2.0
#include "tensors.h"

#include <algorithm>
#include <cstring>

#include "core/half.h"

namespace tilelace::conformance {
namespace {

constexpr std::byte kPoisonByte{0xff};
constexpr std::size_t kGuard = 128;

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

Source::Source(Fill fill, std::uint64_t seed, std::int64_t cols, std::int64_t limit)
    : fill_(fill), seed_(seed), cols_(cols), limit_(limit) {}

std::vector<float> Source::row(std::int64_t row) const {
  std::vector<float> values(static_cast<std::size_t>(cols_));
  Random random(mix(seed_ ^ mix(static_cast<std::uint64_t>(row) + 0x51ed2701)));
  if (fill_ == Fill::normal) {
    for (auto& v : values) {  // sum of uniforms: light tails, all mantissa bits
      v = 0;
      for (int i = 0; i < 4; ++i) {
        v += static_cast<float>(random.next() >> 40) * 0x1p-24F - 0.5F;
      }
      v *= 1.7320508F;
    }
    return values;
  }
  for (std::int64_t i = 0; i < std::min(limit_, cols_); ++i) {
    const std::uint64_t draw = random.next();
    values[draw % static_cast<std::uint64_t>(cols_)] = (draw >> 63) != 0 ? 1.0F : -1.0F;
  }
  return values;
}

void fill(GuardedTensor& tensor, const Source& source, std::int64_t first) {
  tensor.poison();
  for (std::int64_t r = 0; r < tensor.view().rows; ++r) {
    const auto values = source.row(first + r);
    for (std::int64_t c = 0; c < tensor.view().cols; ++c) {
      tensor.set(r, c, values[static_cast<std::size_t>(c)]);
    }
  }
}

}  // namespace tilelace::conformance
