// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <fmt/ostream.h>

#include <cmath>

#include "core/half.h"
#include "gpu_rank.h"
#include "tilelace/dtype.h"
#include "tilelace/op_table.h"

namespace tilelace::cli {
namespace {

std::vector<float> result_of(const CallTensors& tensors) {
  const TensorView& v = tensors.outputs()[0].view();
  std::vector<float> all;
  for (std::int64_t r = 0; r < v.rows; ++r)
    for (std::int64_t c = 0; c < v.cols; ++c)
      all.push_back(load_element(v.data, v.dtype, r * v.stride + c));
  return all;
}

/// Of an unfused result: one rounding errs by 0.52 u. Unfused: gate, whose error silu makes 1.13
/// times as large, up, their product, and what NCCL's ring rounds at every hop (1.15 u). Fused: the
/// product, then partials and their sum (0.72 u). All independent.
double allowed_difference(DType dtype) {
  return unit_roundoff(dtype) *
         std::sqrt(0.52 * 0.52 * (1.13 * 1.13 + 1 + 1 + 1) + 1.15 * 1.15 + 0.72 * 0.72);
}

/// One of an MLP's products, for all sizes.
struct Half {
  Half(const GpuRank& rank, const Job& j)
      : job(j), weights(model_weights(rank.work, j, rank.member.rank())) {
    move_to_gpu(weights, rank.place);
  }
  Job job;
  RankWeights weights;
};

/// Collective: calls of both.
void prepare(const GpuRank& rank, const Half& first, const Half& then) {
  std::vector<Preparation> list;
  for (const Half* half : {&first, &then})
    for (auto& one : preparations(rank.work, half->job, half->weights, rank.member.machine(), false,
                                  rank.work.sizes))
      list.push_back(std::move(one));
  rank.member.prepare(list);
}

/// A rank's MLP of one size.
class Mlp {
 public:
  Mlp(GpuRank& rank, const Job& mlp, const Half& first, const Half& then, std::int64_t m)
      : rank_(rank),
        mlp_(mlp),
        first_job_(first.job),
        then_job_(then.job),
        first_weights_(first.weights),
        then_weights_(then.weights),
        first_(rank.work, first_job_, rank.member.rank(), m, &rank.place),
        then_(rank.work, then_job_, rank.member.rank(), m, &rank.place) {}

  void run(RankPart& part) {
    first_.fill_random();
    for (int i = 0; i < kGraphCalls; ++i) {  // nothing reads what nobody wrote
      turn(i);
      first_.call_collective(rank_.member);
      first_half(nullptr);
      then_.call_gemm(rank_.member, then_weights_);
    }
    const auto machine = rank_.member.machine();
    const Plan first = make_plan(problem_of(mlp_.gemm, first_.m(), rank_.work.dtype), machine);
    const Plan then = make_plan(problem_of(*mlp_.then, first_.m(), rank_.work.dtype), machine);
    std::optional<Plan> first_best, then_best;
    std::vector<CallTime> took;
    const auto first_call = [this](int i, const Plan& plan) {
      turn(i);
      first_half(&plan);
    };
    if (gathers()) first_best = rank_.fastest(first_job_, first_.m(), first_call, took);
    took.clear();
    const auto then_call = [this](int i, const Plan& plan) {
      turn(i);
      then_.call(rank_.member, then_weights_, plan);
    };
    then_best = rank_.fastest(then_job_, first_.m(), then_call, took);
    add("tilelace_gemm", Way::gemm, [this] {
      first_.call_gemm(rank_.member, first_weights_);
      then_.call_gemm(rank_.member, then_weights_);
    });
    add("tilelace_unfused", Way::unfused, [this] { unfused(); });
    add("fused", Way::fused, both(first_best.value_or(first), then_best.value_or(then)));
    if (first_best || then_best) add("fused_default", {}, both(first, then));
    if (rank_.baselines)
      for (Peer& peer : rank_.baselines->peers(mlp_, first_, first_weights_, then_, then_weights_))
        all_.push_back(std::move(peer));
    part.plans = fmt::format(
        "{} | {}",
        gathers() ? fmt::format("{}", fmt::streamed(first_best.value_or(first))) : "product",
        fmt::streamed(then_best.value_or(then)));
    if (rank_.work.check) check(part);
    time(part);
  }

 private:
  [[nodiscard]] bool gathers() const { return row_of(mlp_.then->op).scatters(); }

  void turn(int i) {
    first_.turn(i);
    then_.turn(i);
    then_.take_input(first_.outputs()[0].call_view(i));
  }
  /// No plan, or rows that are whole: the product alone.
  void first_half(const Plan* plan) {
    if (plan == nullptr || !gathers()) return first_.call_gemm(rank_.member, first_weights_);
    first_.call(rank_.member, first_weights_, *plan);
  }
  std::function<void()> both(const Plan& first, const Plan& then) {
    return [this, first, then] {
      first_half(&first);
      then_.call(rank_.member, then_weights_, then);
    };
  }
  void unfused() {
    PlanOptions options;
    options.path = Path::unfused;
    if (gathers())
      first_.call(rank_.member, first_weights_, options, false, false);
    else
      first_half(nullptr);
    then_.call(rank_.member, then_weights_, options, false, false);
  }

  void add(std::string name, std::optional<Way> way, const std::function<void()>& call) {
    all_.push_back({std::move(name), way, [this, call](int i) {
                      turn(i);
                      call();
                    }});
    if (way == Way::gemm) return;
    all_.back().deliver = [this, call] {
      turn(0);
      call();
    };
  }

  /// Every way's result against the first unfused one's.
  void check(RankPart& part) {
    std::vector<float> expected;
    const double allowed = allowed_difference(rank_.work.dtype);
    for (const Peer& way : all_) {
      if (!way.deliver) continue;
      turn(0);
      first_.poison();
      then_.poison();
      first_.call_collective(rank_.member);  // rows that are whole are so again
      way.deliver();
      then_.settle();
      const std::vector<float> got = result_of(then_);
      if (expected.empty()) expected = got;
      double apart = 0, norm = 0;
      for (std::size_t i = 0; i < got.size(); ++i) {
        apart += (static_cast<double>(got[i]) - expected[i]) * (got[i] - expected[i]);
        norm += static_cast<double>(expected[i]) * expected[i];
      }
      if (way.way == Way::fused) part.error_squares = apart, part.value_squares = norm;
      if (apart <= allowed * allowed * norm) continue;  // a NaN is not
      part.pass = false;
      if (part.complaint.empty())
        part.complaint = fmt::format(
            "rank {}: {}: difference from unfused: got {:.5f}, expected at "
            "most {:.5f}",
            rank_.member.rank(), way.name, std::sqrt(apart / norm), allowed);
    }
  }

  void time(RankPart& part) {
    std::vector<GpuCall> calls;
    for (const Peer& way : all_) calls.push_back(way.call);
    const auto samples = rank_.samples(calls);
    for (std::size_t w = 0; w < all_.size(); ++w) {
      const bool own =
          all_[w].way && (all_[w].name == "fused" || all_[w].name.starts_with("tilelace"));
      if (!own) part.peers.push_back({all_[w].name, all_[w].way, samples[w]});
      for (const double us : samples[w])
        if (own) part.samples[static_cast<std::size_t>(*all_[w].way)].push_back({0, us * 1e-6});
    }
  }

  GpuRank& rank_;
  const Job& mlp_;
  const Job &first_job_, &then_job_;
  const RankWeights &first_weights_, &then_weights_;
  CallTensors first_, then_;
  std::vector<Peer> all_;
};

}  // namespace

void measure_mlp(GpuRank& rank, int index) {
  const Job& mlp = rank.work.jobs[static_cast<std::size_t>(index)];
  const auto sizes = rank.work.sizes.size();
  const Half first(rank, {mlp.gemm, mlp.layer});
  const Half then(rank, {*mlp.then, mlp.layer});
  prepare(rank, first, then);
  for (std::size_t s = 0; s < sizes; ++s) {
    RankPart part;
    part.row = index * static_cast<int>(sizes) + static_cast<int>(s);
    Mlp(rank, mlp, first, then, rank.work.sizes[s]).run(part);
    rank.member.barrier();
    rank.send(to_text(part));
  }
}

}  // namespace tilelace::cli
