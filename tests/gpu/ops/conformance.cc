// SPDX-License-Identifier: Apache-2.0
#include "ops/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "backend/cuda/cuda_check.h"
#include "comm/cuda/capabilities.h"
#include "gemm/data.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;

constexpr std::size_t kGuard = 1 << 14;  // bytes around results, at least
constexpr int kReplays = 2;
constexpr double kMargin = 5;  // seconds: the kernels' own bound comes first and says more
constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15ULL;  // from seed to seed

std::size_t bytes_of(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(rows * cols) * 2;
}

std::size_t piece_bytes(const Problem& p, std::size_t i) {
  return i < p.n.size() ? bytes_of(p.m, p.n[i]) : bytes_of(p.m, p.k);
}

}  // namespace

OpCheck::OpCheck(Rank& rank, double timeout_s)
    : rank_(rank), timeout_s_(timeout_s), shared_(rank.ranks > comm::device_count()) {
  constexpr auto kWeights = static_cast<std::int64_t>(kMostWeights);
  results_bytes_ =
      bytes_of(kMostRows, kWeights * kMostCols + kMostK) + (kMostWeights + 2) * 2 * kGuard;
  for (Side& s : sides_) {
    s.a = static_cast<std::byte*>(make(kMostRows * kMostK));
    s.reference = static_cast<std::byte*>(make(kMostRows * kMostK));
    s.results = static_cast<std::byte*>(make(static_cast<std::int64_t>(results_bytes_ / 2)));
  }
  for (std::size_t i = 0; i < kMostWeights; ++i) {
    weights_.push_back(make(kMostCols * kMostK));
    biases_.push_back(make(kMostCols));
  }
}

OpCheck::~OpCheck() {
  for (void* p : all_) cudaFree(p);
}

void* OpCheck::make(std::int64_t elements) {
  void* p = nullptr;
  check(cudaMalloc(&p, static_cast<std::size_t>(elements) * 2), "memory for operands");
  all_.push_back(p);
  return p;
}

void OpCheck::lay(const Case& c, Side& side) const {
  const Problem& p = c.problem;
  side.tensors = {};
  side.tensors.a = side.a;
  side.pieces.clear();
  const std::size_t pieces = p.n.size() + (p.return_gathered ? 1 : 0);
  std::byte* at = side.results;
  for (std::size_t i = 0; i < pieces; ++i) {
    at += kGuard;
    side.pieces.push_back(at);
    at += (piece_bytes(p, i) + 255) / 256 * 256;
  }
  for (std::size_t i = 0; i < p.n.size(); ++i) {
    side.tensors.weights.push_back(weights_.at(i));
    if (p.bias) side.tensors.biases.push_back(biases_.at(i));
    side.tensors.outs.push_back(side.pieces[i]);
  }
  if (p.return_gathered) side.tensors.gathered = side.pieces.back();
}

void OpCheck::fill(const Case& c, void* to, std::int64_t row, std::int64_t rows,
                   std::uint64_t seed) {
  const Problem& p = c.problem;
  if (rows == 0) return;
  if (c.exact)
    test::fill_sparse(to, rows, p.k, std::min(32, 256 / p.ranks), p.dtype, seed, rank_.stream, row);
  else
    test::fill_normal(to, static_cast<std::size_t>(rows * p.k), p.dtype, seed, rank_.stream,
                      static_cast<std::size_t>(row * p.k));
}

void OpCheck::prepare(const Case& c, Side& side, Drop drop) {
  const Problem& p = c.problem;
  const auto self = static_cast<std::size_t>(rank_.rank);
  const auto lost = static_cast<std::size_t>(victim_);
  side.seed = next_seed_ += kStep;
  fill(c, side.reference, 0, p.m, side.seed);
  const std::int64_t rows = borders_[self + 1] - borders_[self];
  fill(c, side.a, borders_[self], rows, side.seed);
  if (drop == Drop::input && self == lost)
    check(cudaMemsetAsync(side.a, 0, bytes_of(rows, p.k), rank_.stream), "dropping an input");
  if (drop == Drop::reference)
    check(cudaMemsetAsync(side.reference + bytes_of(borders_[lost], p.k), 0,
                          bytes_of(borders_[lost + 1] - borders_[lost], p.k), rank_.stream),
          "dropping rows of the reference");
  test::poison(side.results, results_bytes_, rank_.stream);
}

void OpCheck::call(cuda::AgGemm& op, const Case& c, const Side& side) {
  op.run(c.problem, c.plan, side.tensors, rank_.stream);
}

void OpCheck::round(cuda::AgGemm& op, const Case& c, Drop drop, int sides, const std::string& how,
                    const std::function<void()>& launch) {
  for (int i = 0; i < sides; ++i) prepare(c, sides_.at(static_cast<std::size_t>(i)), drop);
  launch();
  op.finish(rank_.stream, timeout_s_ + kMargin);
  // That may wait for the whole device: on a shared one nobody may wait there for a later call.
  if (shared_) rank_.meet();
  for (int i = 0; i < sides; ++i)
    inspect(c, sides_.at(static_cast<std::size_t>(i)),
            sides == 1 ? how : fmt::format("{}, call {} of {}", how, i + 1, sides));
}

void OpCheck::begin(const Case& c) {
  const Problem& p = c.problem;
  tally_ = {};
  borders_ = borders_of(p);
  next_seed_ = c.seed;
  victim_ = 0;
  const auto rows_of = [&](int r) {
    const auto at = static_cast<std::size_t>(r);
    return borders_[at + 1] - borders_[at];
  };
  for (int r = 1; r < rank_.ranks; ++r)
    if (rows_of(r) > rows_of(victim_)) victim_ = r;
  for (std::size_t i = 0; i < p.n.size(); ++i) {
    const auto part = (i + 1) * 64 + static_cast<std::uint64_t>(rank_.rank);
    const std::uint64_t seed = c.seed + part * (kStep << 1U);
    if (c.exact)
      test::fill_sparse(weights_[i], p.n[i], p.k, static_cast<int>(p.k), p.dtype, seed,
                        rank_.stream);
    else
      test::fill_normal(weights_[i], static_cast<std::size_t>(p.n[i] * p.k), p.dtype, seed,
                        rank_.stream);
    test::fill_normal(biases_[i], static_cast<std::size_t>(p.n[i]), p.dtype, ~seed, rank_.stream);
  }
  for (Side& s : sides_) lay(c, s);
}

Tally OpCheck::run(cuda::AgGemm& op, const Case& c, Drop drop) {
  begin(c);
  const auto one = [&] { call(op, c, sides_[0]); };
  const auto both = [&] {
    for (const Side& s : sides_) call(op, c, s);
  };
  if (c.odd) round(op, c, drop, 1, "eager, alone before", one);
  round(op, c, drop, 2, "eager, back to back", both);
  if (c.odd) round(op, c, drop, 1, "eager, alone after", one);

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t made = nullptr;
  check(cudaStreamBeginCapture(rank_.stream, cudaStreamCaptureModeThreadLocal), "capture");
  both();
  check(cudaStreamEndCapture(rank_.stream, &graph), "capture");
  const cudaError_t state = cudaGraphInstantiate(&made, graph, 0);
  cudaGraphDestroy(graph);
  check(state, "the graph");
  const std::unique_ptr<CUgraphExec_st, cudaError_t (*)(cudaGraphExec_t)> owner(
      made, cudaGraphExecDestroy);
  // Making a graph may stop the device, which ranks may share.
  rank_.meet();
  for (int i = 0; i < kReplays; ++i)
    round(op, c, drop, 2, fmt::format("replay {}", i + 1),
          [&] { check(cudaGraphLaunch(made, rank_.stream), "a replay"); });
  return tally_;
}

void OpCheck::check_out(const Case& c, const Side& side, std::size_t out, std::string& trouble) {
  const Problem& p = c.problem;
  const plan::GemmProblem gemm{p.m, p.n[out], p.k, p.dtype};
  const auto j = test::judge({side.reference, weights_[out], p.bias ? biases_[out] : nullptr,
                              side.pieces[out], gemm, p.activation},
                             0, c.exact, 0, rank_.stream);
  if (!c.exact && p.activation == Activation::none && j.checked >= 4096)
    tally_.worst = std::max(tally_.worst, j.relative());
  if (j.wrong == 0) return;
  trouble += fmt::format(
      "; out {}: {} of {} elements wrong, rows {} to {} (of ranks {} to {}), row {} column {} of "
      "rank {}: got {}, expected {}",
      out, j.wrong, j.checked, j.first_row, j.last_row, owner_of(borders_, j.first_row),
      owner_of(borders_, j.last_row), j.row, j.col, owner_of(borders_, j.row), j.got, j.expected);
}

void OpCheck::check_gathered(const Case& c, const Side& side, std::string& trouble) {
  const Problem& p = c.problem;
  if (!p.return_gathered) return;
  const auto d = test::compare(side.pieces.back(), side.reference,
                               static_cast<std::size_t>(p.m * p.k), rank_.stream);
  if (d.words == 0) return;
  trouble += fmt::format(
      "; gathered: {} of {} words differ, rows {} to {} (of ranks {} to {}), the first in column "
      "{}, the last in column {}",
      d.words, p.m * p.k, d.first / p.k, d.last / p.k, owner_of(borders_, d.first / p.k),
      owner_of(borders_, d.last / p.k), d.first % p.k, d.last % p.k);
}

void OpCheck::check_guards(const Case& c, const Side& side, std::string& trouble) {
  const std::byte* from = side.results;
  for (std::size_t i = 0; i <= side.pieces.size(); ++i) {
    const std::byte* to = i < side.pieces.size() ? side.pieces[i] : side.results + results_bytes_;
    const auto bytes =
        test::count_unpoisoned(from, static_cast<std::size_t>(to - from), rank_.stream);
    if (bytes != 0)
      trouble += fmt::format("; {} guard bytes {} result {} of {} overwritten", bytes,
                             i == 0 ? "before" : "behind", i == 0 ? 0 : i - 1, side.pieces.size());
    if (i < side.pieces.size()) from = side.pieces[i] + piece_bytes(c.problem, i);
  }
}

void OpCheck::inspect(const Case& c, const Side& side, const std::string& how) {
  std::string trouble;
  for (std::size_t i = 0; i < c.problem.n.size(); ++i) check_out(c, side, i, trouble);
  check_gathered(c, side, trouble);
  check_guards(c, side, trouble);
  ++tally_.calls;
  if (trouble.empty()) return;
  if (tally_.wrong++ == 0) tally_.first = fmt::format("rank {}, {}{}", rank_.rank, how, trouble);
}

}  // namespace tilelace::gpu_test
