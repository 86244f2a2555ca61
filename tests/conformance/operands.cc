// SPDX-License-Identifier: Apache-2.0
#include "conformance/operands.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/ways/ag_gemm_way.h"

namespace tilelace::test {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::uint64_t kSources = 4096, kBiases = 2048, kResidual = kSources - 1;  // of a seed
constexpr std::uint64_t kMany = 4096;  // elements: over fewer chance exceeds a bound on the mean

std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

std::byte* row_of(const TensorView& t, std::int64_t row) {
  return static_cast<std::byte*>(t.data) +
         row * t.stride * static_cast<std::int64_t>(size_of(t.dtype));
}

/// All of them where nothing lies between.
std::int64_t rows_at_once(const TensorView& t) {
  return t.stride == t.cols ? std::max<std::int64_t>(1, t.rows) : 1;
}

}  // namespace

Operands::Operands(Place& place, const Problem& p, int rank, Fill fill, const Layout& layout)
    : place_(&place), problem_(p), rank_(rank), fill_(fill), layout_(layout), shape_(p, rank) {
  for (const std::int64_t n : p.n) {
    reference_weights_.push_back(make_dense(shape_.parts * n, p.k));
    views_.weights.push_back(make_input(n, p.k));
    if (p.bias) views_.biases.push_back(make_input(1, n));
  }
  lay();
}

void Operands::reshape(Place& place, const Problem& problem) {
  place_ = &place;
  problem_ = problem;
  shape_ = OpShape(problem, rank_);
  lay();
}

void Operands::lay() {
  const Problem& p = problem_;
  borders_ = borders_of(p);
  inputs_.clear();
  reference_ = make_dense(shape_.parts * shape_.results, p.k);
  views_.all_rows = dense(reference_.data, p.dtype, shape_.results, p.k);
  views_.input = make_input(shape_.inputs, p.k);
  if (p.residual) {
    views_.residual = make_input(shape_.results, p.n[0]);
    // A rank without rows may have no memory for it.
    if (shape_.results == 0) views_.residual.data = nullptr;
  }
  std::vector<Extent> extents;
  for (std::size_t i = 0; i < p.outputs(); ++i) extents.push_back({shape_.results, p.n[i]});
  if (p.return_gathered) extents.push_back({p.m, p.k});
  results_ = make_guarded(extents, layout_.guard, true);
  views_.outs = results_.views;
  if (!p.return_gathered) return;
  views_.gathered = views_.outs.back();
  views_.outs.pop_back();
}

std::int64_t Operands::stride_of(std::int64_t cols) const {
  const auto size = static_cast<std::int64_t>(size_of(problem_.dtype));
  return ((cols * size + 15) / 16 + layout_.pad) * 16 / size;
}

std::size_t Operands::bytes_of(std::int64_t rows, std::int64_t cols) const {
  return static_cast<std::size_t>(rows * cols) * size_of(problem_.dtype);
}

TensorView Operands::make_dense(std::int64_t rows, std::int64_t cols) {
  return dense(place_->make(std::max(kLine, bytes_of(rows, cols))), problem_.dtype, rows, cols);
}

TensorView Operands::make_input(std::int64_t rows, std::int64_t cols) {
  Guarded guarded = make_guarded({{rows, cols}}, layout_.inputs ? layout_.guard : 0, false);
  const TensorView view = guarded.views.front();
  if (layout_.inputs) {
    place_->set(guarded.region.data(), kPoison, guarded.region.size());
    inputs_.push_back(std::move(guarded));
  }
  return view;
}

Operands::Guarded Operands::make_guarded(const std::vector<Extent>& extents, std::size_t guard,
                                         bool results) {
  const auto offset = static_cast<std::size_t>(layout_.offset) * 16;
  std::size_t bytes = guard + kLine;
  for (const Extent& e : extents)
    bytes += padded(offset + bytes_of(e.rows, stride_of(e.cols))) + guard;
  Guarded made{{results ? place_->make_results(bytes) : place_->make(bytes), bytes}, {}};
  std::byte* at = made.region.data();
  for (const Extent& e : extents) {
    at += guard;
    made.views.push_back({at + offset, problem_.dtype, e.rows, e.cols, stride_of(e.cols)});
    at += padded(offset + bytes_of(e.rows, stride_of(e.cols)));
  }
  return made;
}

std::vector<std::span<std::byte>> Operands::pieces() const {
  std::vector<std::span<std::byte>> all;
  for (const TensorView& t : results_.views)
    all.emplace_back(static_cast<std::byte*>(t.data), bytes_of(t.rows, t.cols));
  return all;
}

Source Operands::source(std::uint64_t seed, std::uint64_t which, std::int64_t per_row) const {
  return {fill_, hash(seed * kSources + which), per_row};
}

void Operands::fill_weights(std::uint64_t seed) {
  const Problem& p = problem_;
  weight_seed_ = seed;
  const auto own = static_cast<std::uint64_t>(rank_);
  for (std::size_t i = 0; i < p.n.size(); ++i) {
    const auto source_of = [&](int owner) {
      return source(seed, (i + 1) * 64 + static_cast<std::uint64_t>(owner), p.k);
    };
    const TensorView& all = reference_weights_[i];
    for (int part = 0; part < shape_.parts; ++part)
      place_->fill(dense(row_of(all, part * p.n[i]), p.dtype, p.n[i], p.k),
                   source_of(shape_.sums ? part : rank_), 0);
    place_->fill(views_.weights[i], source_of(rank_), 0);
    // Whose bias it is that is added to a sum does not matter: all have the same.
    if (p.bias)
      place_->fill(views_.biases[i],
                   source(seed, kBiases + i * 64 + (shape_.sums ? 0 : own), p.n[i]), 0);
  }
}

void Operands::fill(std::uint64_t seed) {
  const Problem& p = problem_;
  const std::int64_t per_row = exact_per_row(p.dtype, p.ranks);
  const auto source_of = [&](int part) {
    return source(seed, static_cast<std::uint64_t>(part), per_row);
  };
  const std::int64_t rows = shape_.results;
  for (int part = 0; part < shape_.parts && rows > 0; ++part)
    place_->fill(dense(row_of(reference_, part * rows), p.dtype, rows, p.k), source_of(part),
                 shape_.result_row);
  if (shape_.inputs > 0) place_->fill(views_.input, source_of(shape_.own_part), shape_.input_row);
  // Of the rows that the rank gets; gemm_ar: the same on all ranks.
  if (p.residual && rows > 0)
    place_->fill(views_.residual, source(weight_seed_, kResidual, p.n[0]), shape_.result_row);
  place_->set(results().data(), kPoison, results().size());
}

void Operands::drop_input() {
  const TensorView& t = views_.input;
  const std::int64_t step = rows_at_once(t);
  for (std::int64_t r = 0; r < t.rows; r += step)
    place_->set(row_of(t, r), 0, bytes_of(step, t.cols));
}

void Operands::drop_reference(int rank) {
  // Where rows are gathered, the rank's; where they are summed, its part of them.
  const OpShape lost(problem_, rank);
  const std::int64_t first = shape_.sums ? rank * shape_.results : lost.input_row;
  const std::int64_t rows = shape_.sums ? shape_.results : lost.inputs;
  if (rows > 0) place_->set(row_of(reference_, first), 0, bytes_of(rows, problem_.k));
}

std::string Operands::check(double* worst) const {
  Troubles troubles;
  for (std::size_t i = 0; i < problem_.outputs(); ++i) check_out(i, troubles, worst);
  check_gathered(troubles);
  check_guards(results_, "result", troubles);
  for (const Guarded& input : inputs_) check_guards(input, "input", troubles);
  return fmt::format("{}", fmt::join(troubles, "; "));
}

Judged Operands::judged(std::size_t i) const {
  const Problem& p = problem_;
  const auto bias = [&](std::size_t of) { return p.bias ? views_.biases[of].data : nullptr; };
  Judged judged{reference_.data,
                reference_weights_[i].data,
                bias(i),
                views_.outs[i].data,
                plan::product_of(p, i, shape_.results),
                p.activation,
                {shape_.parts, shape_.results * p.k, p.n[i] * p.k, shape_.sums ? roundings_ : 0}};
  judged.stride = views_.outs[i].stride;
  judged.residual = views_.residual.data;
  if (!judged.problem.gated) return judged;
  judged.up = reference_weights_[1].data;
  judged.up_bias = bias(1);
  return judged;
}

void Operands::check_out(std::size_t out, Troubles& troubles, double* worst) const {
  if (shape_.results == 0) return;
  const auto j = place_->judge(judged(out), exact());
  if (worst != nullptr && !exact() && problem_.activation == Activation::none && j.checked >= kMany)
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
  const std::int64_t step = rows_at_once(views_.gathered);
  for (std::int64_t row = 0; row < p.m; row += step) {
    const auto d = place_->compare(row_of(views_.gathered, row), row_of(reference_, row), p.dtype,
                                   static_cast<std::size_t>(step * p.k));
    if (d.words == 0) continue;
    const auto owner = [&](std::int64_t element) {
      return owner_of(borders_, row + element / p.k);
    };
    troubles.push_back(fmt::format(
        "gathered: {} of {} elements differ, rows {} to {} (of ranks {} to {}), the first in "
        "column {}, the last in column {}",
        d.words, step * p.k, row + d.first / p.k, row + d.last / p.k, owner(d.first), owner(d.last),
        d.first % p.k, d.last % p.k));
    return;
  }
}

void Operands::check_guards(const Guarded& guarded, const char* what, Troubles& troubles) const {
  const std::byte* from = guarded.region.data();
  const auto look = [&](const std::byte* to, std::size_t behind) {
    const auto bytes = place_->count_unpoisoned(from, static_cast<std::size_t>(to - from));
    if (bytes != 0)
      troubles.push_back(fmt::format("{} guard bytes overwritten before or in {} {} of {}", bytes,
                                     what, behind, guarded.views.size()));
  };
  for (std::size_t i = 0; i < guarded.views.size(); ++i) {
    const TensorView& t = guarded.views[i];
    const std::int64_t step = rows_at_once(t);
    for (std::int64_t r = 0; r < t.rows; r += step) {
      look(row_of(t, r), i);
      from = row_of(t, r) + bytes_of(step, t.cols);
    }
  }
  look(guarded.region.data() + guarded.region.size(), guarded.views.size());
}

std::string Operands::check_untouched() const {
  const auto bytes = place_->count_unpoisoned(results().data(), results().size());
  return bytes == 0 ? "" : fmt::format("{} bytes of results written, expected none", bytes);
}

}  // namespace tilelace::test
