// SPDX-License-Identifier: Apache-2.0
#include "moe/tensors.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "core/half.h"

namespace tilelace::cli {
namespace {

constexpr std::int64_t kTable = 65537;
/// Bytes that are copied at once, about.
constexpr std::size_t kBlock = 16 << 20;

}  // namespace

RankTensor::RankTensor(Communicator& member, DType dtype, std::int64_t rows, std::int64_t cols)
    : memory_(member, static_cast<std::size_t>(rows * cols) * size_of(dtype)),
      dtype_(dtype),
      rows_(rows),
      cols_(cols) {}

TensorView RankTensor::rows(std::int64_t begin, std::int64_t count) const {
  auto* const first = static_cast<std::byte*>(memory_.data()) +
                      static_cast<std::size_t>(begin * cols_) * size_of(dtype_);
  return dense(first, dtype_, count, cols_);
}

void RankTensor::fill(const std::vector<std::byte>& pattern) {
  if (pattern.empty()) return;
  std::vector<std::byte> block = pattern;
  while (block.size() < std::min(kBlock, memory_.bytes()))
    block.insert(block.end(), pattern.begin(), pattern.end());
  for (std::size_t at = 0; at < memory_.bytes(); at += block.size())
    memory_.upload(block.data(), std::min(block.size(), memory_.bytes() - at), at);
}

RandomTensor::RandomTensor(Communicator& member, DType dtype, std::int64_t rows, std::int64_t cols,
                           std::uint32_t seed, double scale)
    : RankTensor(member, dtype, rows, cols) {
  const std::int64_t count = std::min(rows * cols, kTable);
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_of(dtype));
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, scale);
  for (std::int64_t i = 0; i < count; ++i) {
    store_element(bytes.data(), dtype, i, static_cast<float>(normal(random)));
    table_.push_back(load_element(bytes.data(), dtype, i));
  }
  fill(bytes);
}

std::vector<float> RandomTensor::row(std::int64_t r) const {
  std::vector<float> all;
  all.reserve(static_cast<std::size_t>(cols_));
  for (std::int64_t i = r * cols_; i < (r + 1) * cols_; ++i)
    all.push_back(table_[static_cast<std::size_t>(i) % table_.size()]);
  return all;
}

void ResultTensor::spoil() {
  // All bits set are a NaN of every type.
  fill(std::vector<std::byte>(kTable, std::byte{0xFF}));
}

std::vector<float> ResultTensor::row(std::int64_t r) const {
  const std::size_t bytes = static_cast<std::size_t>(cols_) * size_of(dtype_);
  std::vector<std::byte> raw(bytes);
  memory_.download(raw.data(), bytes, static_cast<std::size_t>(r) * bytes);
  std::vector<float> all;
  for (std::int64_t i = 0; i < cols_; ++i) all.push_back(load_element(raw.data(), dtype_, i));
  return all;
}

}  // namespace tilelace::cli
