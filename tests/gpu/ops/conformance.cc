// SPDX-License-Identifier: Apache-2.0
#include "ops/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string_view>

#include "backend/cuda/base/cuda_check.h"
#include "core/check.h"
#include "gemm/data.h"
#include "ops/stress_kernels.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;

constexpr double kMargin = 5;  // seconds: the kernels' own bound comes first and says more

std::size_t bytes_of(const TensorView& t) { return static_cast<std::size_t>(t.rows * t.cols) * 2; }

// Of a side, at most, by what is drawn.
constexpr auto kWeights = static_cast<std::int64_t>(kMostWeights);
constexpr std::size_t kResultBytes = (kMostRows * (kWeights * kMostCols + kMostK)) * 2 + (1 << 20);
constexpr std::size_t kPartBytes = (kMostRows + kWeights * kMostCols) * kMostK * 2 + (1 << 16);
constexpr std::size_t kOwnBytes = kMostRows * (kMostK + kMostCols) * 2 + (1 << 16);

}  // namespace

OpCheck::OpCheck(Rank& rank, double timeout_s)
    : rank_(rank), timeout_s_(timeout_s), shared_(share_devices(rank.ranks)), stall_(rank) {
  outs_ = std::make_unique<ReachableMemory>(*rank.group, rank.device, sides_.size() * kResultBytes,
                                            timeout_s);
  std::byte* at = outs_->data();
  for (Side& s : sides_) {
    s.memory.emplace(static_cast<std::size_t>(rank.ranks) * kPartBytes + kOwnBytes);
    s.results = at;
    at += kResultBytes;
    s.place.emplace(
        rank.stream, [&s](std::size_t bytes) { return s.memory->take(bytes); },
        [&s](std::size_t bytes) {
          require(bytes <= kResultBytes, "results: got {} bytes, expected at most {}", bytes,
                  kResultBytes);
          return s.results;
        });
    s.kept = make(kResultBytes);
    s.seen = make(kResultBytes);
  }
  aside_ = make(kPartBytes);
}

OpCheck::~OpCheck() {
  for (void* p : all_) cudaFree(p);
}

std::byte* OpCheck::make(std::size_t bytes) {
  void* p = nullptr;
  check(cudaMalloc(&p, bytes), "memory for operands");
  all_.push_back(p);
  return static_cast<std::byte*>(p);
}

void OpCheck::lay(const Case& c, Side& side) {
  side.memory->clear();
  test::Operands& o = side.operands.emplace(*side.place, c.problem, rank_.rank,
                                            c.exact ? test::Fill::exact : test::Fill::normal);
  o.fill_weights(c.seed);
  const auto& views = o.views();
  side.tensors = {};
  side.tensors.input = views.input;
  side.tensors.weights = views.weights;
  side.tensors.bias = views.biases;
  side.tensors.out = views.outs;
  side.tensors.gathered = views.gathered;
  side.tensors.residual = views.residual;
  side.tensors.stream = rank_.stream;
  if (c.reachable()) side.tensors.reachable = outs_->at(views.outs.front().data);
  side.tensors.weights_wait = c.writes_late();
}

void OpCheck::prepare(Side& side, Drop drop) {
  side.operands->fill(side.seed);
  if (drop == Drop::input && rank_.rank == victim_) side.operands->drop_input();
  if (drop == Drop::reference) side.operands->drop_reference(victim_);
}

void OpCheck::write_late(const Side& side) {
  LateCopy copy;
  std::byte* aside = aside_;
  const auto add = [&](const TensorView& t) {
    const std::size_t bytes = bytes_of(t);
    if (bytes == 0) return;
    check(cudaMemcpyAsync(aside, t.data, bytes, cudaMemcpyDeviceToDevice, rank_.stream),
          "putting aside what is written late");
    test::poison(t.data, bytes, rank_.stream);
    copy.piece[copy.pieces++] = {t.data, aside, bytes};
    aside += bytes;
  };
  static_assert(kMostWeights < kMostLatePieces);
  for (const TensorView& weight : side.operands->views().weights) add(weight);
  add(side.operands->views().input);
  check(enqueue_late_copy(copy, rank_.stream), "writing late");
}

void OpCheck::call(cuda::RankOps& ops, const Case& c, const Side& side) {
  if (c.writes_late()) write_late(side);
  if (c.plan.path == Path::unfused && side.tensors.gathered) {
    cuda::CallTensors rows = side.tensors;  // of the gather alone
    rows.weights = rows.bias = rows.out = {};
    ops.run(c.problem, c.plan, rows);
  }
  ops.run(c.problem, c.plan, side.tensors);
}

void OpCheck::look(const Side& side) {
  for (const auto piece : side.operands->pieces()) {
    std::byte* const to = side.seen + (piece.data() - side.results);
    if (piece.empty()) continue;
    check(cudaMemcpyAsync(to, piece.data(), piece.size(), cudaMemcpyDeviceToDevice, rank_.stream),
          "looking at results");
  }
}

void OpCheck::round(cuda::RankOps& ops, const Case& c, Drop drop, const Round& r,
                    const std::function<void()>& launch) {
  const auto sides = static_cast<std::size_t>(r.sides);
  for (std::size_t i = 0; i < sides; ++i) {
    if (!r.again) sides_.at(i).seed = ++next_seed_;
    prepare(sides_.at(i), drop);
  }
  launch();
  const StallWatch::Scope scope(
      stall_, {{r.how, &ops.calls, [&](comm::Flag) { return text_of(c); }}}, timeout_s_ / 2);
  ops.calls.finish(rank_.stream, timeout_s_ + kMargin);
  // That may wait for the whole device: on a shared one nobody may wait there for a later call.
  if (shared_) rank_.meet();
  for (std::size_t i = 0; i < sides; ++i)
    inspect(sides_.at(i),
            sides == 1 ? r.how : fmt::format("{}, call {} of {}", r.how, i + 1, sides), r.again);
  if (shared_) rank_.meet();  // so may looking at results
}

void OpCheck::begin(const Case& c) {
  const Problem& p = c.problem;
  tally_ = {};
  next_seed_ = c.seed;
  // Some rank whose loss is seen by all.
  victim_ = static_cast<int>(c.seed % static_cast<std::uint64_t>(p.ranks));
  const auto inputs_of = [&](int r) { return test::OpShape(p, r).inputs; };
  for (int r = 0; r < rank_.ranks; ++r)
    if (inputs_of(r) > inputs_of(victim_)) victim_ = r;
  for (Side& s : sides_) lay(c, s);
}

Tally OpCheck::run(cuda::RankOps& ops, const Case& c, Drop drop) {
  begin(c);
  const auto one = [&] {
    call(ops, c, sides_[0]);
    look(sides_[0]);
  };
  const auto both = [&] {
    for (const Side& s : sides_) call(ops, c, s);
    for (const Side& s : sides_) look(s);
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
    check(cudaMemcpyAsync(s.kept, s.results, s.operands->results().size(), cudaMemcpyDeviceToDevice,
                          rank_.stream),
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

void OpCheck::check_seen(const Side& side, std::string& trouble) {
  const auto pieces = side.operands->pieces();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::byte* const seen = side.seen + (pieces[i].data() - side.results);
    if (pieces[i].empty()) continue;
    const auto d = test::compare(pieces[i].data(), seen, pieces[i].size() / 2, rank_.stream);
    if (d.words != 0)
      trouble += fmt::format("; {} words of result {} came after the call, the first at byte {}",
                             d.words, i, d.first * 2);
  }
}

void OpCheck::check_equal(const Side& side, std::string& trouble) {
  const Problem& p = side.operands->problem();
  if (p.op != Op::gemm_ar || p.m == 0) return;
  const auto out = side.operands->pieces().front();
  const std::size_t width = out.size() / static_cast<std::size_t>(p.m);
  std::string host(out.size(), '\0');
  check(cudaMemcpyAsync(host.data(), out.data(), host.size(), cudaMemcpyDeviceToHost, rank_.stream),
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
                           row, test::owner_of(borders_of(p), row));
  }
}

void OpCheck::inspect(const Side& side, const std::string& how, bool again) {
  const auto results = side.operands->results();
  std::string trouble = side.operands->check(&tally_.worst);
  if (!trouble.empty()) trouble = "; " + trouble;
  check_seen(side, trouble);
  check_equal(side, trouble);
  if (again) {
    const auto d = test::compare(results.data(), side.kept, results.size() / 2, rank_.stream);
    if (d.words != 0)
      trouble += fmt::format(
          "; {} words differ from those of the eager call, the first at byte {}", d.words,
          d.first * 2 - (side.operands->pieces().front().data() - results.data()));
  }
  ++tally_.calls;
  if (side.operands->shape().results == 0) ++tally_.blind;
  if (trouble.empty()) return;
  if (tally_.wrong++ == 0) tally_.first = fmt::format("rank {}, {}{}", rank_.rank, how, trouble);
}

}  // namespace tilelace::gpu_test
