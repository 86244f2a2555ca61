// SPDX-License-Identifier: Apache-2.0
#include "ops/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string_view>

#include "backend/cuda/cuda_check.h"
#include "gemm/data.h"
#include "ops/stress_kernels.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;

constexpr std::size_t kGuard = 1 << 14;  // bytes around results, at least
constexpr double kMargin = 5;  // seconds: the kernels' own bound comes first and says more
constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15ULL;  // from seed to seed
constexpr unsigned kPartShift = 40;

std::size_t bytes_of(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(rows * cols) * 2;
}

/// Of outs, then of the gathered operand.
std::size_t piece_bytes(const Problem& p, const OpShape& s, std::size_t i) {
  return i < p.outputs() ? bytes_of(s.results, p.n[i]) : bytes_of(p.m, p.k);
}

// From part to part, in elements.
constexpr std::int64_t kOperandPitch = kMostRows * kMostK, kWeightPitch = kMostCols * kMostK;

}  // namespace

OpCheck::OpCheck(Rank& rank, double timeout_s)
    : rank_(rank),
      timeout_s_(timeout_s),
      shared_(share_devices(rank.ranks)),
      stall_(rank),
      shape_({}, 0) {
  constexpr auto kWeights = static_cast<std::int64_t>(kMostWeights);
  results_bytes_ =
      bytes_of(kMostRows, kWeights * kMostCols + kMostK) + (kMostWeights + 2) * 2 * kGuard;
  const auto results = static_cast<std::int64_t>(results_bytes_ / 2);
  outs_ = std::make_unique<ReachableMemory>(*rank.group, rank.device,
                                            sides_.size() * results_bytes_, timeout_s);
  std::byte* at = outs_->data();
  for (Side& s : sides_) {
    s.a = make(kOperandPitch);
    s.reference = make(rank.ranks * kOperandPitch);
    s.results = at;
    at += results_bytes_;
    s.kept = make(results);
    s.seen = make(results);
  }
  for (std::size_t i = 0; i < kMostWeights; ++i) {
    weights_.push_back(make(rank.ranks * kWeightPitch));
    biases_.push_back(make(kMostCols));
  }
  residual_ = make(kMostRows * kMostCols);
  aside_ = make(kWeights * kWeightPitch + kOperandPitch);
}

OpCheck::~OpCheck() {
  for (void* p : all_) cudaFree(p);
}

std::byte* OpCheck::make(std::int64_t elements) {
  void* p = nullptr;
  check(cudaMalloc(&p, static_cast<std::size_t>(elements) * 2), "memory for operands");
  all_.push_back(p);
  return static_cast<std::byte*>(p);
}

std::byte* OpCheck::own_weight(std::size_t i) const {
  return weights_.at(i) + shape_.own_part * kWeightPitch * 2;
}

void OpCheck::lay(const Case& c, Side& side) const {
  const Problem& p = c.problem;
  side.tensors = {};
  side.tensors.a = side.a;
  side.pieces.clear();
  const std::size_t pieces = p.outputs() + (p.return_gathered ? 1 : 0);
  std::byte* at = side.results;
  for (std::size_t i = 0; i < pieces; ++i) {
    at += kGuard;
    side.pieces.push_back(at);
    at += (piece_bytes(p, shape_, i) + 255) / 256 * 256;
  }
  for (std::size_t i = 0; i < p.n.size(); ++i) {
    side.tensors.weights.push_back(own_weight(i));
    if (p.bias) side.tensors.biases.push_back(biases_.at(i));
    if (i < p.outputs()) side.tensors.outs.push_back(side.pieces[i]);
  }
  if (c.reachable()) side.tensors.reachable = outs_->at(side.pieces.front());
  side.tensors.weights_wait = c.writes_late();
  if (p.residual) side.tensors.residual = residual_;
  if (p.return_gathered) side.tensors.gathered = side.pieces.back();
}

void OpCheck::fill(const Case& c, void* to, std::int64_t row, std::int64_t rows,
                   std::uint64_t seed) {
  const Problem& p = c.problem;
  if (rows == 0) return;
  if (c.exact)
    test::fill_sparse(to, rows, p.k, std::min(32, 255 / p.ranks), p.dtype, seed, rank_.stream, row);
  else
    test::fill_normal(to, static_cast<std::size_t>(rows * p.k), p.dtype, seed, rank_.stream,
                      static_cast<std::size_t>(row * p.k));
}

void OpCheck::prepare(const Case& c, Side& side, Drop drop) {
  const Problem& p = c.problem;
  const auto seed_of = [&](int part) {
    return side.seed + (static_cast<std::uint64_t>(part) << kPartShift);
  };
  for (int part = 0; part < shape_.parts; ++part)
    fill(c, side.reference + part * kOperandPitch * 2, shape_.result_row, shape_.results,
         seed_of(part));
  fill(c, side.a, shape_.input_row, shape_.inputs, seed_of(shape_.own_part));
  if (drop == Drop::input && rank_.rank == victim_)
    check(cudaMemsetAsync(side.a, 0, bytes_of(shape_.inputs, p.k), rank_.stream),
          "dropping an input");
  if (drop == Drop::reference) {
    // Where rows are gathered, the victim's; where they are summed, its part of them.
    const OpShape lost(p, victim_);
    std::byte* const from = shape_.sums ? side.reference + victim_ * kOperandPitch * 2
                                        : side.reference + bytes_of(lost.input_row, p.k);
    const std::int64_t rows = shape_.sums ? shape_.results : lost.inputs;
    check(cudaMemsetAsync(from, 0, bytes_of(rows, p.k), rank_.stream),
          "dropping a part of the reference");
  }
  test::poison(side.results, results_bytes_, rank_.stream);
}

void OpCheck::write_late(const Case& c, const Side& side) {
  LateCopy copy;
  std::byte* aside = aside_;
  const auto add = [&](void* piece, std::size_t bytes) {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(aside, piece, bytes, cudaMemcpyDeviceToDevice, rank_.stream),
          "putting aside what is written late");
    test::poison(piece, bytes, rank_.stream);
    copy.piece[copy.pieces++] = {piece, aside, bytes};
    aside += bytes;
  };
  static_assert(kMostWeights < kMostLatePieces);
  for (std::size_t i = 0; i < c.problem.n.size(); ++i)
    add(own_weight(i), bytes_of(c.problem.n[i], c.problem.k));
  add(side.a, bytes_of(shape_.inputs, c.problem.k));
  check(enqueue_late_copy(copy, rank_.stream), "writing late");
}

void OpCheck::call(cuda::RankOps& ops, const Case& c, const Side& side) {
  if (c.writes_late()) write_late(c, side);
  if (c.plan.path == Path::unfused && side.tensors.gathered != nullptr) {
    cuda::OpTensors rows = side.tensors;  // of the gather alone
    rows.weights.clear();
    rows.biases.clear();
    rows.outs.clear();
    ops.run(c.problem, c.plan, rows, rank_.stream);
  }
  ops.run(c.problem, c.plan, side.tensors, rank_.stream);
}

void OpCheck::look(const Case& c, const Side& side) {
  for (std::size_t i = 0; i < side.pieces.size(); ++i) {
    const std::size_t bytes = piece_bytes(c.problem, shape_, i);
    std::byte* const to = side.seen + std::distance(side.results, side.pieces[i]);
    if (bytes == 0) continue;
    check(cudaMemcpyAsync(to, side.pieces[i], bytes, cudaMemcpyDeviceToDevice, rank_.stream),
          "looking at results");
  }
}

void OpCheck::round(cuda::RankOps& ops, const Case& c, Drop drop, const Round& r,
                    const std::function<void()>& launch) {
  const auto sides = static_cast<std::size_t>(r.sides);
  for (std::size_t i = 0; i < sides; ++i) {
    if (!r.again) sides_.at(i).seed = next_seed_ += kStep;
    prepare(c, sides_.at(i), drop);
  }
  launch();
  const StallWatch::Scope scope(
      stall_, {{r.how, &ops.calls, [&](comm::Flag) { return text_of(c); }}}, timeout_s_ / 2);
  ops.calls.finish(rank_.stream, timeout_s_ + kMargin);
  // That may wait for the whole device: on a shared one nobody may wait there for a later call.
  if (shared_) rank_.meet();
  for (std::size_t i = 0; i < sides; ++i)
    inspect(c, sides_.at(i),
            sides == 1 ? r.how : fmt::format("{}, call {} of {}", r.how, i + 1, sides), r.again);
  if (shared_) rank_.meet();  // so may looking at results
}

void OpCheck::begin(const Case& c) {
  const Problem& p = c.problem;
  tally_ = {};
  borders_ = borders_of(p);
  shape_ = OpShape(p, rank_.rank);
  next_seed_ = c.seed;
  // Some rank whose loss is seen by all.
  victim_ = static_cast<int>(c.seed % static_cast<std::uint64_t>(p.ranks));
  const auto inputs_of = [&](int r) { return OpShape(p, r).inputs; };
  for (int r = 0; r < rank_.ranks; ++r)
    if (inputs_of(r) > inputs_of(victim_)) victim_ = r;
  fill_weights(c);
  fill_residual(c);
  for (Side& s : sides_) lay(c, s);
}

/// The rows that the rank gets; gemm_ar: the same on all ranks.
void OpCheck::fill_residual(const Case& c) {
  const Problem& p = c.problem;
  if (!p.residual || shape_.results == 0) return;
  const std::uint64_t seed = c.seed + 0x7fffULL * kStep;
  if (c.exact)
    test::fill_sparse(residual_, shape_.results, p.n[0], static_cast<int>(p.n[0]), p.dtype, seed,
                      rank_.stream, shape_.result_row);
  else
    test::fill_normal(residual_, static_cast<std::size_t>(shape_.results * p.n[0]), p.dtype, seed,
                      rank_.stream, static_cast<std::size_t>(shape_.result_row * p.n[0]));
}

void OpCheck::fill_weights(const Case& c) {
  const Problem& p = c.problem;
  for (std::size_t i = 0; i < p.n.size(); ++i) {
    for (int part = 0; part < shape_.parts; ++part) {
      const auto owner = static_cast<std::uint64_t>(shape_.sums ? part : rank_.rank);
      const std::uint64_t seed = c.seed + ((i + 1) * 64 + owner) * (kStep << 1U);
      std::byte* const to = weights_[i] + part * kWeightPitch * 2;
      if (c.exact)
        test::fill_sparse(to, p.n[i], p.k, static_cast<int>(p.k), p.dtype, seed, rank_.stream);
      else
        test::fill_normal(to, static_cast<std::size_t>(p.n[i] * p.k), p.dtype, seed, rank_.stream);
    }
    // Whose bias it is that is added to a sum does not matter: all have the same.
    const auto owner = static_cast<std::uint64_t>(shape_.sums ? 0 : rank_.rank);
    test::fill_normal(biases_[i], static_cast<std::size_t>(p.n[i]), p.dtype,
                      ~(c.seed + ((i + 1) * 64 + owner) * (kStep << 1U)), rank_.stream);
  }
}

Tally OpCheck::run(cuda::RankOps& ops, const Case& c, Drop drop) {
  begin(c);
  const auto one = [&] {
    call(ops, c, sides_[0]);
    look(c, sides_[0]);
  };
  const auto both = [&] {
    for (const Side& s : sides_) call(ops, c, s);
    for (const Side& s : sides_) look(c, s);
  };
  if (c.odd) round(ops, c, drop, {1, "eager, alone before"}, one);
  // Four calls: the third takes the staging of the first.
  const auto twice = [&] {
    for (const Side& s : sides_) call(ops, c, s);
    both();
  };
  if (c.odd)
    round(ops, c, drop, {2, "eager, back to back"}, both);
  else
    round(ops, c, drop, {2, "eager, four back to back"}, twice);
  for (const Side& s : sides_)
    check(
        cudaMemcpyAsync(s.kept, s.results, results_bytes_, cudaMemcpyDeviceToDevice, rank_.stream),
        "keeping results");
  const std::array<std::uint64_t, 2> kept{sides_[0].seed, sides_[1].seed};
  if (c.odd) round(ops, c, drop, {1, "eager, alone after"}, one);
  tally_.replayed = !shared_ || is_captured_on_shares(c.plan);
  if (!tally_.replayed) return tally_;

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t made = nullptr;
  check(cudaStreamBeginCapture(rank_.stream, cudaStreamCaptureModeThreadLocal), "capture");
  both();
  check(cudaStreamEndCapture(rank_.stream, &graph), "capture");
  const cudaError_t state = cudaGraphInstantiate(&made, graph, 0);
  cudaGraphDestroy(graph);
  check(state, "the graph");
  std::unique_ptr<CUgraphExec_st, cudaError_t (*)(cudaGraphExec_t)> owner(made,
                                                                          cudaGraphExecDestroy);
  // Making a graph may stop the device, which ranks may share.
  rank_.meet();
  const auto replay = [&] { check(cudaGraphLaunch(made, rank_.stream), "a replay"); };
  round(ops, c, drop, {2, "replay 1"}, replay);
  // The next replay has to align.
  if (c.odd) round(ops, c, drop, {1, "eager, alone between replays"}, one);
  for (std::size_t i = 0; i < kept.size(); ++i) sides_[i].seed = kept[i];
  round(ops, c, drop, {2, "replay 2, inputs of the eager calls", true}, replay);
  owner.reset();
  if (shared_) rank_.meet();  // as making it
  return tally_;
}

void OpCheck::check_out(const Case& c, const Side& side, std::size_t out, std::string& trouble) {
  const Problem& p = c.problem;
  if (shape_.results == 0) return;
  const auto bias = [&](std::size_t i) { return p.bias ? biases_[i] : nullptr; };
  const int roundings = shape_.parts > 1 ? roundings_of(c.plan, p) : 0;
  test::Judged judged{side.reference,
                      weights_[out],
                      bias(out),
                      side.pieces[out],
                      plan::product_of(p, out, shape_.results),
                      p.activation,
                      {shape_.parts, kOperandPitch, kWeightPitch, roundings}};
  if (p.residual) judged.residual = residual_;
  if (judged.problem.gated) {
    judged.up = weights_[1];
    judged.up_bias = bias(1);
  }
  const auto j = test::judge(judged, 0, c.exact, 0, rank_.stream);
  if (!c.exact && p.activation == Activation::none && j.checked >= 4096)
    tally_.worst = std::max(tally_.worst, j.relative());
  if (j.wrong == 0) return;
  const auto row = [&](std::int64_t r) { return shape_.result_row + r; };
  const auto owner = [&](std::int64_t r) { return owner_of(borders_, row(r)); };
  trouble += fmt::format(
      "; out {}: {} of {} elements wrong, rows {} to {} of m (of ranks {} to {}), row {} column {} "
      "of rank {}: got {}, expected {}",
      out, j.wrong, j.checked, row(j.first_row), row(j.last_row), owner(j.first_row),
      owner(j.last_row), row(j.row), j.col, owner(j.row), j.got, j.expected);
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

void OpCheck::check_seen(const Case& c, const Side& side, std::string& trouble) {
  for (std::size_t i = 0; i < side.pieces.size(); ++i) {
    const std::byte* const seen = side.seen + std::distance(side.results, side.pieces[i]);
    const std::size_t words = piece_bytes(c.problem, shape_, i) / 2;
    if (words == 0) continue;
    const auto d = test::compare(side.pieces[i], seen, words, rank_.stream);
    if (d.words != 0)
      trouble += fmt::format("; {} words of result {} came after the call, the first at byte {}",
                             d.words, i, d.first * 2);
  }
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
    if (i < side.pieces.size()) from = side.pieces[i] + piece_bytes(c.problem, shape_, i);
  }
}

void OpCheck::check_equal(const Case& c, const Side& side, std::string& trouble) {
  const Problem& p = c.problem;
  if (p.op != Op::gemm_ar || p.m == 0) return;
  const std::size_t width = bytes_of(1, p.n[0]);
  std::string host(static_cast<std::size_t>(p.m) * width, '\0');
  check(cudaMemcpyAsync(host.data(), side.pieces[0], host.size(), cudaMemcpyDeviceToHost,
                        rank_.stream),
        "results for the host");
  check(cudaStreamSynchronize(rank_.stream), "results for the host");
  std::string hashes;  // a row each
  for (std::size_t at = 0; at < host.size(); at += width)
    hashes += fmt::format("{:016x}", std::hash<std::string_view>{}({host.data() + at, width}));
  const auto all = rank_.group->all_gather(hashes, kMeetSeconds);
  for (int r = 0; r < rank_.rank; ++r) {
    const std::string& theirs = all[static_cast<std::size_t>(r)];
    const auto at = std::mismatch(hashes.begin(), hashes.end(), theirs.begin(), theirs.end());
    if (at.first == hashes.end()) continue;
    const auto row = (at.first - hashes.begin()) / 16;
    trouble += fmt::format("; other bits than on rank {}, first in row {} (summed by rank {})", r,
                           row, owner_of(borders_, row));
  }
}

void OpCheck::inspect(const Case& c, const Side& side, const std::string& how, bool again) {
  std::string trouble;
  for (std::size_t i = 0; i < c.problem.outputs(); ++i) check_out(c, side, i, trouble);
  check_gathered(c, side, trouble);
  check_seen(c, side, trouble);
  check_guards(c, side, trouble);
  check_equal(c, side, trouble);
  // Added as ranks come, only sums of integers are the same in every run.
  if (again && (c.exact || is_steady(c.plan))) {
    const auto d = test::compare(side.results, side.kept, results_bytes_ / 2, rank_.stream);
    if (d.words != 0)
      trouble +=
          fmt::format("; {} words differ from those of the eager call, the first at byte {}",
                      d.words, d.first * 2 - std::distance(side.results, side.pieces.front()));
  }
  ++tally_.calls;
  if (shape_.results == 0) ++tally_.blind;
  if (trouble.empty()) return;
  if (tally_.wrong++ == 0) tally_.first = fmt::format("rank {}, {}{}", rank_.rank, how, trouble);
}

}  // namespace tilelace::gpu_test
