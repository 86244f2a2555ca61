// SPDX-License-Identifier: Apache-2.0
#include "op/tune_operands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "core/half.h"
#include "tilelace/op_table.h"

namespace tilelace::op {
namespace {

/// Values that repeat: a prime, so that rows of usual lengths differ.
constexpr std::size_t kValues = 1'000'003;
/// What all copies of operands have together, at least: more than any L2.
constexpr std::int64_t kBeyondL2 = std::int64_t{128} << 20;
constexpr std::int64_t kMostSets = 16;
constexpr std::int64_t kColumns = 16;  ///< of a row whose values are looked at

/// Of a sum in fp32, relative to the sum of all terms' magnitudes.
constexpr double kSumError = 16 * 0x1p-24;

std::int64_t bytes_of(const Problem& p, std::int64_t rows_of_input, std::int64_t rows_of_out) {
  std::int64_t elements = rows_of_input * p.k + p.total_n() * p.k;
  for (std::size_t i = 0; i < p.outputs(); ++i) elements += rows_of_out * p.out_n(i);
  return elements * static_cast<std::int64_t>(size_of(p.dtype));
}

}  // namespace

Problem tuned_part(const Problem& p) {
  Problem part;
  part.op = p.op;
  part.ranks = p.ranks;
  part.m = p.m;
  part.n = p.n;
  part.k = p.k;
  part.dtype = p.dtype;
  if (p.activation == Activation::swiglu) part.activation = p.activation;
  return part;
}

TuneValues::TuneValues() {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < kValues; ++i) values_.push_back(normal(random));
}

float TuneValues::at(DType dtype, int rank, int tensor, std::int64_t i, float scale) const {
  const std::uint64_t begin =
      7919U * static_cast<unsigned>(rank) + 104729U * static_cast<unsigned>(tensor);
  const float value = values_[(begin + static_cast<std::uint64_t>(i)) % kValues];
  std::uint64_t rounded = 0;
  store_element(&rounded, dtype, 0, scale * value);
  return load_element(&rounded, dtype, 0);
}

std::string TuneValues::bytes(DType dtype, int rank, int tensor, std::int64_t count,
                              float scale) const {
  count = std::min(count, static_cast<std::int64_t>(kValues));
  std::string bytes(static_cast<std::size_t>(count) * size_of(dtype), '\0');
  for (std::int64_t i = 0; i < count; ++i)
    store_element(bytes.data(), dtype, i, at(dtype, rank, tensor, i, scale));
  return bytes;
}

void fill_rounds(DeviceBuffer& buffer, const std::string& first, std::int64_t elements,
                 DType dtype) {
  // Element i is value i of the round.
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(dtype);
  for (std::size_t at = 0; at < bytes; at += first.size())
    buffer.upload(first.data(), std::min(first.size(), bytes - at), at);
}

void fill_nans(DeviceBuffer& buffer) {
  const std::string nans(std::size_t{1} << 22, '\xff');
  for (std::size_t at = 0; at < buffer.bytes(); at += nans.size())
    buffer.upload(nans.data(), std::min(nans.size(), buffer.bytes() - at), at);
}

std::int64_t copies_beyond_l2(std::int64_t bytes) {
  bytes = std::max<std::int64_t>(1, bytes);
  return std::clamp((kBeyondL2 + bytes - 1) / bytes, std::int64_t{1}, kMostSets);
}

TuneOperands::TuneOperands(Communicator& member, const Problem& problem, const TuneValues& values)
    : member_(member), problem_(problem), values_(values) {
  const OpRow& op = row_of(problem.op);
  const int rank = member.rank();
  const std::int64_t in = op.gathers ? rows_at(rank) : problem.m;
  const std::int64_t out = op.scatters() ? rows_at(rank) : problem.m;
  // The same number on every rank, whose shards may differ by a row.
  const std::int64_t sets = copies_beyond_l2(bytes_of(problem, problem.m, problem.m));
  for (std::int64_t s = 0; s < sets; ++s) {
    Set set;
    set.input = add(in, problem.k, 0);
    for (std::size_t i = 0; i < problem.n.size(); ++i)
      set.weights.push_back(add(problem.n[i], problem.k, static_cast<int>(i) + 1));
    for (std::size_t i = 0; i < problem.outputs(); ++i) {
      if (s == 0) out_memory_.push_back(memory_.size());
      set.out.push_back(add(out, problem.out_n(i), -1));
    }
    sets_.push_back(std::move(set));
  }
  made_.clear();
}

std::int64_t TuneOperands::rows_at(int rank) const {
  return problem_.m / problem_.ranks + (rank < problem_.m % problem_.ranks ? 1 : 0);
}

std::int64_t TuneOperands::begin_of(int rank) const {
  return rank * (problem_.m / problem_.ranks) +
         std::min<std::int64_t>(rank, problem_.m % problem_.ranks);
}

/// `tensor` -1: a result, which has no values yet.
TensorView TuneOperands::add(std::int64_t rows, std::int64_t cols, int tensor) {
  const std::size_t row_bytes = static_cast<std::size_t>(cols) * size_of(problem_.dtype);
  const std::size_t bytes = std::max<std::size_t>(16, static_cast<std::size_t>(rows) * row_bytes);
  DeviceBuffer& buffer = memory_.emplace_back(member_, bytes);
  const TensorView view = dense(buffer.data(), problem_.dtype, rows, cols);
  if (tensor < 0) return view;
  const std::int64_t elements = rows * cols;
  std::string& some = made_[tensor];
  if (some.empty() && elements > 0)
    some = values_.bytes(problem_.dtype, member_.rank(), tensor, elements);
  fill_rounds(buffer, some, elements, problem_.dtype);
  return view;
}

CallArgs TuneOperands::call(int i, void* stream) const {
  const Set& set = sets_[static_cast<std::size_t>(i) % sets_.size()];
  return {problem_, {set.input, set.weights, {}, set.out, {}, stream, {}}};
}

void TuneOperands::poison() {
  for (const std::size_t at : out_memory_) fill_nans(memory_[at]);
}

std::string TuneOperands::wrong() const {
  const bool scatters = row_of(problem_.op).scatters();
  std::set<std::int64_t> rows;
  for (int rank = 0; rank < problem_.ranks; ++rank)
    if (rows_at(rank) > 0 && (!scatters || rank == member_.rank()))
      for (const std::int64_t row : {std::int64_t{0}, rows_at(rank) / 2, rows_at(rank) - 1})
        rows.insert(begin_of(rank) + row);
  for (std::size_t i = 0; i < problem_.outputs(); ++i)
    for (const std::int64_t row : rows)
      if (std::string text = wrong_row(i, row); !text.empty()) return text;
  return "";
}

std::string TuneOperands::wrong_row(std::size_t output, std::int64_t row) const {
  const std::int64_t n = problem_.out_n(output);
  const std::int64_t first = row_of(problem_.op).scatters() ? begin_of(member_.rank()) : 0;
  const std::size_t row_bytes = static_cast<std::size_t>(n) * size_of(problem_.dtype);
  std::string bytes(row_bytes, '\0');
  memory_[out_memory_[output]].download(bytes.data(), row_bytes,
                                        static_cast<std::size_t>(row - first) * row_bytes);
  const std::int64_t step = std::max<std::int64_t>(1, n / kColumns);
  for (std::int64_t col = 0; col < n; ++col) {
    const double got = load_element(bytes.data(), problem_.dtype, col);
    if (std::isfinite(got) && col % step != 0 && col != n - 1) continue;
    const Expected e = expected(output, row, col);
    if (std::abs(got - e.value) <= e.bound) continue;
    return fmt::format("row {}, column {}: got {:g}, expected {:g} within {:.2g}", row, col, got,
                       e.value, e.bound);
  }
  return "";
}

TuneOperands::Expected TuneOperands::product(int weight, std::int64_t row, std::int64_t col) const {
  const bool gathers = row_of(problem_.op).gathers;
  const double u = unit_roundoff(problem_.dtype);
  Expected sum;
  for (int q = 0; q < problem_.ranks; ++q) {
    if (gathers && (row < begin_of(q) || row >= begin_of(q) + rows_at(q))) continue;
    const std::int64_t x = (gathers ? row - begin_of(q) : row) * problem_.k, w = col * problem_.k;
    double part = 0, magnitude = 0;
    for (std::int64_t i = 0; i < problem_.k; ++i) {
      const double term =
          static_cast<double>(values_.at(problem_.dtype, q, 0, x + i)) *
          values_.at(problem_.dtype, gathers ? member_.rank() : q, weight + 1, w + i);
      part += term;
      magnitude += std::abs(term);
    }
    sum.value += part;
    // A route may round what it has of the sum at every rank.
    sum.bound += kSumError * magnitude + u * (gathers ? 0 : problem_.ranks) * std::abs(part);
  }
  return sum;
}

TuneOperands::Expected TuneOperands::expected(std::size_t output, std::int64_t row,
                                              std::int64_t col) const {
  Expected e = product(static_cast<int>(output), row, col);
  if (problem_.activation == Activation::swiglu) {
    const Expected up = product(1, row, col);
    const double gate = e.value / (1 + std::exp(-e.value));
    // |silu'| <= 1.1.
    e = {gate * up.value, 1.1 * e.bound * std::abs(up.value) + std::abs(gate) * up.bound};
  }
  // The rounding of the result, which may be a denormal number.
  e.bound += 1.5 * unit_roundoff(problem_.dtype) * std::abs(e.value) + 1e-6;
  return e;
}

}  // namespace tilelace::op
