// SPDX-License-Identifier: Apache-2.0
#include "operands.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/cuda_check.h"
#include "gemm/data.h"
#include "plan/ag_gemm.h"

namespace tilelace::gpu_test {
namespace {

constexpr std::size_t kGuard = 1 << 16;  // bytes; more than a wrong stride reaches beyond a result
constexpr std::uint64_t kSources = 4096, kResidual = kSources - 1;  // of values, a seed
constexpr std::uint64_t kMany = 4096;  // elements: over fewer chance exceeds a bound on the mean

std::size_t bytes_of(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(rows * cols) * 2;
}

std::uint64_t source(std::uint64_t seed, std::uint64_t which) {
  return test::hash(seed * kSources + which);
}

std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

Operands::Operands(const Problem& p, int rank, bool exact, cudaStream_t stream,
                   const OperandMemory& memory)
    : problem_(p),
      rank_(rank),
      shape_(p, rank),
      borders_(borders_of(p)),
      exact_(exact),
      stream_(stream) {
  const auto make = [&](std::int64_t rows, std::int64_t cols) {
    return static_cast<std::byte*>(memory.make(std::max<std::size_t>(16, bytes_of(rows, cols))));
  };
  const auto view = [&](void* data, std::int64_t rows, std::int64_t cols) {
    return dense(data, p.dtype, rows, cols);
  };
  const std::int64_t parts = shape_.parts;
  reference_ = make(parts * shape_.results, p.k);
  views_.all_rows = view(reference_, shape_.results, p.k);
  views_.input = view(make(shape_.inputs, p.k), shape_.inputs, p.k);
  for (const std::int64_t n : p.n) {
    weights_.push_back(make(parts * n, p.k));
    views_.weights.push_back(view(weights_.back() + shape_.own_part * bytes_of(n, p.k), n, p.k));
    if (p.bias) views_.biases.push_back(view(make(1, n), 1, n));
  }
  if (p.residual)  // a rank without rows may have no memory for it
    views_.residual =
        view(shape_.results == 0 ? nullptr : make(shape_.results, p.n[0]), shape_.results, p.n[0]);

  std::vector<std::int64_t> cols = p.n;
  cols.resize(p.outputs());
  if (p.return_gathered) cols.push_back(p.k);
  std::size_t bytes = kGuard;
  for (const std::int64_t n : cols) bytes += padded(bytes_of(shape_.results, n)) + kGuard;
  results_ = {static_cast<std::byte*>(memory.make_results(bytes)), bytes};
  std::byte* at = results_.data();
  for (const std::int64_t n : cols) {
    at += kGuard;
    pieces_.emplace_back(at, bytes_of(shape_.results, n));
    views_.outs.push_back(dense(at, p.dtype, shape_.results, n));
    at += padded(pieces_.back().size());
  }
  if (!p.return_gathered) return;
  views_.gathered = views_.outs.back();
  views_.outs.pop_back();
}

void Operands::fill_rows(void* to, std::int64_t rows, std::int64_t cols, int per_row,
                         std::uint64_t seed, std::int64_t first_row) const {
  if (rows == 0) return;
  if (exact_)
    test::fill_sparse(to, rows, cols, per_row, problem_.dtype, seed, stream_, first_row);
  else
    test::fill_normal(to, static_cast<std::size_t>(rows * cols), problem_.dtype, seed, stream_,
                      static_cast<std::size_t>(first_row * cols));
}

void Operands::fill_weights(std::uint64_t seed) {
  const Problem& p = problem_;
  for (std::size_t i = 0; i < p.n.size(); ++i) {
    const auto seed_of = [&](int owner) {
      return source(seed, (i + 1) * 64 + static_cast<std::uint64_t>(owner));
    };
    for (int part = 0; part < shape_.parts; ++part)
      fill_rows(weights_[i] + part * bytes_of(p.n[i], p.k), p.n[i], p.k, static_cast<int>(p.k),
                seed_of(shape_.sums ? part : rank_), 0);
    // Whose bias it is that is added to a sum does not matter: all have the same.
    if (p.bias)
      test::fill_normal(views_.biases[i].data, static_cast<std::size_t>(p.n[i]), p.dtype,
                        ~seed_of(shape_.sums ? 0 : rank_), stream_);
  }
  // Of the rows that the rank gets; gemm_ar: the same on all ranks.
  if (p.residual)
    fill_rows(views_.residual.data, shape_.results, p.n[0], static_cast<int>(p.n[0]),
              source(seed, kResidual), shape_.result_row);
}

void Operands::fill(std::uint64_t seed) {
  const Problem& p = problem_;
  const int per_row = std::min(32, 255 / p.ranks);  // sums of all parts are exact
  const auto seed_of = [&](int part) { return source(seed, static_cast<std::uint64_t>(part)); };
  for (int part = 0; part < shape_.parts; ++part)
    fill_rows(reference_ + part * bytes_of(shape_.results, p.k), shape_.results, p.k, per_row,
              seed_of(part), shape_.result_row);
  fill_rows(views_.input.data, shape_.inputs, p.k, per_row, seed_of(shape_.own_part),
            shape_.input_row);
  test::poison(results_.data(), results_.size(), stream_);
}

void Operands::drop_input() {
  cuda::check(cudaMemsetAsync(views_.input.data, 0, bytes_of(shape_.inputs, problem_.k), stream_),
              "dropping an input");
}

void Operands::drop_reference(int rank) {
  // Where rows are gathered, the rank's; where they are summed, its part of them.
  const OpShape lost(problem_, rank);
  const std::int64_t first = shape_.sums ? rank * shape_.results : lost.input_row;
  const std::int64_t rows = shape_.sums ? shape_.results : lost.inputs;
  cuda::check(cudaMemsetAsync(reference_ + bytes_of(first, problem_.k), 0,
                              bytes_of(rows, problem_.k), stream_),
              "dropping a part of the reference");
}

std::string Operands::check(double* worst) const {
  Troubles troubles;
  for (std::size_t i = 0; i < problem_.outputs(); ++i) check_out(i, troubles, worst);
  check_gathered(troubles);
  check_guards(troubles);
  return fmt::format("{}", fmt::join(troubles, "; "));
}

test::Judged Operands::judged(std::size_t i) const {
  const Problem& p = problem_;
  const auto bias = [&](std::size_t of) { return p.bias ? views_.biases[of].data : nullptr; };
  test::Judged judged{
      reference_,
      weights_[i],
      bias(i),
      views_.outs[i].data,
      plan::product_of(p, i, shape_.results),
      p.activation,
      {shape_.parts, shape_.results * p.k, p.n[i] * p.k, shape_.sums ? roundings_ : 0}};
  judged.residual = views_.residual.data;
  if (!judged.problem.gated) return judged;
  judged.up = weights_[1];
  judged.up_bias = bias(1);
  return judged;
}

void Operands::check_out(std::size_t out, Troubles& troubles, double* worst) const {
  if (shape_.results == 0) return;
  const auto j = test::judge(judged(out), 0, exact_, 0, stream_);
  if (worst != nullptr && !exact_ && problem_.activation == Activation::none && j.checked >= kMany)
    *worst = std::max(*worst, j.relative());
  if (j.wrong == 0) return;
  const auto row = [&](std::int64_t r) { return shape_.result_row + r; };
  const auto owner = [&](std::int64_t r) { return owner_of(borders_, row(r)); };
  troubles.push_back(fmt::format(
      "out {}: {} of {} elements wrong, rows {} to {} of m (of ranks {} to {}), row {} column {} "
      "of rank {}: got {}, expected {}",
      out, j.wrong, j.checked, row(j.first_row), row(j.last_row), owner(j.first_row),
      owner(j.last_row), row(j.row), j.col, owner(j.row), j.got, j.expected));
}

void Operands::check_gathered(Troubles& troubles) const {
  const Problem& p = problem_;
  if (!p.return_gathered || p.m == 0) return;
  const auto d =
      test::compare(views_.gathered.data, reference_, static_cast<std::size_t>(p.m * p.k), stream_);
  if (d.words == 0) return;
  troubles.push_back(fmt::format(
      "gathered: {} of {} words differ, rows {} to {} (of ranks {} to {}), the first in column "
      "{}, the last in column {}",
      d.words, p.m * p.k, d.first / p.k, d.last / p.k, owner_of(borders_, d.first / p.k),
      owner_of(borders_, d.last / p.k), d.first % p.k, d.last % p.k));
}

void Operands::check_guards(Troubles& troubles) const {
  const std::byte* from = results_.data();
  for (std::size_t i = 0; i <= pieces_.size(); ++i) {
    const std::byte* const to =
        i < pieces_.size() ? pieces_[i].data() : results_.data() + results_.size();
    const auto bytes = test::count_unpoisoned(from, static_cast<std::size_t>(to - from), stream_);
    if (bytes != 0)
      troubles.push_back(fmt::format("{} guard bytes {} result {} of {} overwritten", bytes,
                                     i == 0 ? "before" : "behind", i == 0 ? 0 : i - 1,
                                     pieces_.size()));
    if (i < pieces_.size()) from = pieces_[i].data() + pieces_[i].size();
  }
}

std::string Operands::check_untouched() const {
  const auto bytes = test::count_unpoisoned(results_.data(), results_.size(), stream_);
  return bytes == 0 ? "" : fmt::format("{} bytes of results written, expected none", bytes);
}

}  // namespace tilelace::gpu_test
