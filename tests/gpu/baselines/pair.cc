// SPDX-License-Identifier: Apache-2.0
#include "pair.h"

#include <algorithm>
#include <cmath>

#include "backend/cuda/cuda_check.h"
#include "core/check.h"
#include "core/half.h"
#include "gemm/data.h"
#include "gemm/rows.h"
#include "swiglu.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;

constexpr double kWaitSeconds = 10;  // below kFinishSeconds: the kernel's record comes first
constexpr std::size_t kPage = 4096;
constexpr std::size_t kFinalists = 3;
constexpr int kFinalRounds = 4;

std::size_t bytes_of(std::int64_t rows, std::int64_t cols) {
  const auto bytes = static_cast<std::size_t>(rows * cols) * size_of(DType::bf16);
  return (bytes + kPage - 1) / kPage * kPage;
}

/// Input, weights, both products, partial and result.
std::size_t bytes_of(const PairRow& r) {
  return 2 * bytes_of(r.m, r.hidden) + 3 * bytes_of(r.inner, r.hidden) +
         bytes_of(r.m, 2 * r.inner) + bytes_of(r.m, r.inner) + bytes_of(r.m, r.hidden);
}

double guess_us(const PairRow& row) {
  return guess_gemm_us(row.first_product(false)) + guess_gemm_us(row.second_product()) + 50;
}

}  // namespace

plan::GemmProblem PairRow::first_product(bool gated) const {
  plan::GemmProblem p{m, 2 * inner, hidden, DType::bf16};
  p.gated = gated;
  return p;
}

plan::GemmProblem PairRow::second_product() const { return {m, hidden, inner, DType::bf16}; }

Problem PairRow::gather_problem() const {
  Problem p;
  p.op = Op::ag_gemm;
  p.ranks = ranks;
  p.m = m;
  p.n = {inner, inner};
  p.k = hidden;
  p.activation = Activation::swiglu;
  return p;
}

Problem PairRow::sum_problem() const {
  return {.op = second, .ranks = ranks, .m = m, .n = {hidden}, .k = inner};
}

std::vector<PairRow> pair_rows(const std::vector<Op>& seconds,
                               const std::vector<std::string>& models, int ranks,
                               const std::vector<std::int64_t>& ms) {
  std::vector<PairRow> rows;
  for (const Op second : seconds)
    for (const test::GemmRow& g : test::gemm_rows(models, {ranks}, ms, DType::bf16)) {
      if (g.side != "ag" || g.model == "gpt3") continue;  // which has no gate
      require(g.problem.m % ranks == 0, "--m: got {}, expected a multiple of {} ranks for a pair",
              g.problem.m, ranks);
      rows.push_back({g.model, second, ranks, g.problem.m, g.k, g.problem.n});
    }
  require(!rows.empty(), "--models: got none with a gate, expected llama70b or qwen32b");
  return rows;
}

PairBench::PairBench(Rank& rank, cuda::NcclGroup& nccl, const std::vector<PairRow>& rows,
                     const Options& options)
    : rank_(rank), nccl_(nccl), options_(options), timer_(rank, nccl) {
  std::vector<Problem> problems;
  std::size_t bytes = 0;
  std::size_t results = 0;
  for (const PairRow& row : rows) {
    if (row.gathers()) problems.push_back(row.gather_problem());
    problems.push_back(row.sum_problem());
    bytes = std::max(bytes, bytes_of(row));
    results = std::max(results, bytes_of(row.m, row.hidden));
  }
  memory_ = nccl.allocate(bytes, cuda::NcclBuffer::plain);
  reachable_ = std::make_unique<ReachableMemory>(*rank.group, rank.device, results, kWaitSeconds);
  ops_ = make_ops(*rank.group, rank.device, problems, kWaitSeconds);
}

std::byte* PairBench::part(std::size_t bytes) {
  std::byte* const at = memory_->data() + used_;
  used_ += bytes;
  return at;
}

void PairBench::lay(const PairRow& row) {
  used_ = 0;
  whole_ = part(bytes_of(row.m, row.hidden));
  own_ = whole_ + (row.gathers() ? rank_.rank * (row.m / row.ranks) * row.hidden * 2 : 0);
  gate_ = part(2 * bytes_of(row.inner, row.hidden));
  up_ = gate_ + row.inner * row.hidden * 2;  // right behind: one weight to cuBLASLt
  down_ = part(bytes_of(row.inner, row.hidden));
  both_ = part(bytes_of(row.m, 2 * row.inner));
  inner_ = part(bytes_of(row.m, row.inner));
  partial_ = part(bytes_of(row.m, row.hidden));
  out_ = part(bytes_of(row.m, row.hidden));
  const auto fill = [&](std::byte* to, std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
    test::fill_normal(to, static_cast<std::size_t>(rows * cols), DType::bf16, seed, rank_.stream);
  };
  const auto own = static_cast<std::uint64_t>(rank_.rank) * 100;
  fill(own_, row.gathers() ? row.m / row.ranks : row.m, row.hidden, 1 + (row.gathers() ? own : 0));
  fill(gate_, 2 * row.inner, row.hidden, 2 + own);
  fill(down_, row.hidden, row.inner, 3 + own);
  nccl_.finish(rank_.stream, "filling the tensors", kMeetSeconds / 2);
}

cuda::GemmTensors PairBench::blas_first() const {
  cuda::GemmTensors t;
  t.a = whole_, t.weight = gate_, t.out = both_;
  return t;
}

cuda::GemmTensors PairBench::blas_second() const {
  cuda::GemmTensors t;
  t.a = inner_, t.weight = down_, t.out = partial_;
  return t;
}

Variant PairBench::variant(std::string name, Method method, double guess_us,
                           std::function<void()> launch) {
  Variant v;
  v.name = std::move(name);
  v.method = method;
  v.launch = [launch = std::move(launch)](int) { launch(); };
  if (method == Method::fused)
    v.finish = [this] { ops_->calls.finish(rank_.stream, kFinishSeconds); };
  timer_.prepare(v, guess_us);
  return v;
}

PairBench::Blas PairBench::best_blas(const plan::GemmProblem& problem,
                                     const cuda::GemmTensors& tensors) {
  Blas blas{std::make_unique<cuda::CublasGemm>(problem, options_.algorithms), 0};
  const int count = static_cast<int>(-rank_.max(-blas.gemm->algorithms()));
  std::vector<Variant> all;
  for (int i = 0; i < count; ++i) {
    all.push_back(variant(
        blas.gemm->describe(i), Method::gemm, guess_gemm_us(problem),
        [this, i, &tensors, gemm = blas.gemm.get()] { gemm->launch(tensors, i, rank_.stream); }));
    all.back().index = static_cast<std::size_t>(i);
  }
  timer_.select(all, kFinalists, kFinalRounds, options_.lengths);
  blas.algorithm = static_cast<int>(all.front().index);
  return blas;
}

PairBench::Half PairBench::gather_half(const PairRow& row, const OpPlan& plan) {
  OpTensors t;
  t.a = own_;
  t.weights = {gate_, up_};
  t.outs = {inner_};
  return {describe(plan),
          [this, plan, t, p = row.gather_problem()] { run_op(*ops_, p, plan, t, rank_.stream); }};
}

PairBench::Half PairBench::product_half(const PairRow& row, const plan::GemmPlan& plan) {
  cuda::GemmTensors t;
  t.a = whole_, t.weight = gate_, t.up = up_, t.out = inner_;
  auto call =
      std::make_shared<cuda::GemmCall>(plan, row.first_product(true), t, workspace_.scratch());
  return {plan::describe(plan), [this, call] { call->launch(rank_.stream); }};
}

PairBench::Half PairBench::sum_half(const PairRow& row, const OpPlan& plan) {
  OpTensors t;
  t.a = inner_;
  t.weights = {down_};
  t.outs = {row.gathers() ? out_ : reachable_->data()};
  if (!row.gathers()) t.reachable = reachable_->at(reachable_->data());
  return {describe(plan),
          [this, plan, t, p = row.sum_problem()] { run_op(*ops_, p, plan, t, rank_.stream); }};
}

std::vector<PairBench::Half> PairBench::first_halves(const PairRow& row) {
  const auto wanted = static_cast<std::size_t>(options_.candidates);
  std::vector<Half> halves;
  if (!row.gathers()) {
    for (const plan::GemmPlan& plan : plan::gemm_candidates(row.first_product(true)))
      if (halves.size() < wanted && cuda::has_kernel(plan, DType::bf16))
        halves.push_back(product_half(row, plan));
    return halves;
  }
  for (const OpPlan& plan : candidates_of(row.gather_problem()))
    if (halves.size() < wanted && cuda::has_kernel(gemm_of(plan), DType::bf16))
      halves.push_back(gather_half(row, plan));
  return halves;
}

std::vector<PairBench::Half> PairBench::second_halves(const PairRow& row) {
  std::vector<Half> halves;
  for (const OpPlan& plan : candidates_of(row.sum_problem()))
    if (halves.size() < static_cast<std::size_t>(options_.candidates) &&
        cuda::has_kernel(gemm_of(plan), DType::bf16))
      halves.push_back(sum_half(row, plan));
  return halves;
}

std::size_t PairBench::best_of(const std::vector<Half>& halves, const PairRow& row) {
  require(!halves.empty(), "{}: got no plan that this build has, expected one", row.name());
  std::vector<Variant> all;
  for (const Half& half : halves) {
    all.push_back(variant(half.plan, Method::fused, guess_us(row) / 2, half.launch));
    all.back().index = all.size() - 1;
  }
  timer_.select(all, kFinalists, kFinalRounds, options_.lengths);
  return all.front().index;
}

std::vector<Variant> PairBench::variants(const PairRow& row, PairResult& result) {
  const auto products = [this] {
    first_.launch(blas_first(), rank_.stream);
    second_.launch(blas_second(), rank_.stream);
  };
  const auto unfused = [this, row] {
    const auto shard = static_cast<std::size_t>(row.m / row.ranks * row.hidden);
    const auto all = static_cast<std::size_t>(row.m * row.hidden);
    if (row.gathers()) nccl_.all_gather(own_, whole_, shard, DType::bf16, rank_.stream);
    first_.launch(blas_first(), rank_.stream);
    check(enqueue_swiglu(both_, inner_, row.m, row.inner, rank_.stream), "swiglu");
    second_.launch(blas_second(), rank_.stream);
    if (row.gathers())
      nccl_.reduce_scatter(partial_, out_, shard, DType::bf16, rank_.stream);
    else
      nccl_.all_reduce(partial_, out_, all, DType::bf16, rank_.stream);
  };
  const std::vector<Half> firsts = first_halves(row);
  const std::vector<Half> seconds = second_halves(row);
  const Half& first = firsts[best_of(firsts, row)];
  const Half& second = seconds[best_of(seconds, row)];
  result.first_plan = first.plan;
  result.second_plan = second.plan;
  const auto both = [](const Half& x, const Half& y) {
    return [a = x.launch, b = y.launch] { a(), b(); };
  };
  std::vector<Variant> all;
  all.push_back(variant("gemms", Method::gemm, guess_us(row), products));
  all.push_back(variant("unfused", Method::unfused, guess_us(row), unfused));
  all.push_back(variant("fused", Method::fused, guess_us(row), both(first, second)));
  all.push_back(
      variant("default", Method::fused, guess_us(row), both(firsts.front(), seconds.front())));
  return all;
}

double PairBench::distance(const PairRow& row, const Variant& x, const Variant& y) {
  const auto elements = static_cast<std::size_t>(row.out_rows() * row.hidden);
  const auto result = [&](const Variant& v) {
    std::byte* const at = v.method == Method::fused && !row.gathers() ? reachable_->data() : out_;
    test::poison(at, 2 * elements, rank_.stream);
    test::poison(inner_, bytes_of(row.m, row.inner), rank_.stream);
    nccl_.finish(rank_.stream, "poisoning", kFinishSeconds);
    timer_.replay(v);
    std::vector<std::uint16_t> host(elements);
    check(cudaMemcpy(host.data(), at, 2 * elements, cudaMemcpyDeviceToHost), "a result");
    return host;
  };
  const auto a = result(x);
  const auto b = result(y);
  double apart = 0;
  double norm = 0;
  for (std::size_t i = 0; i < elements; ++i) {
    const double p = bf16_to_float(a[i]);
    const double q = bf16_to_float(b[i]);
    apart += (p - q) * (p - q);
    norm += q * q;
  }
  // A NaN is the largest there is, also among ranks.
  const double mine = std::sqrt(apart / norm);
  return rank_.max(std::isfinite(mine) ? mine : 1e300);
}

PairResult PairBench::run(const PairRow& row) {
  lay(row);
  const cuda::GemmTensors one = blas_first();
  const cuda::GemmTensors two = blas_second();
  PairResult r;
  r.row = row;
  r.rounds = options_.rounds;
  first_ = best_blas(row.first_product(false), one);
  second_ = best_blas(row.second_product(), two);
  std::vector<Variant> all = variants(row, r);
  timer_.warm(all.front());
  timer_.rounds(all, options_.rounds, options_.lengths);
  r.gemms_us = all[0].median();
  r.unfused_us = all[1].median();
  r.fused_us = all[2].median();
  r.default_us = all[3].median();
  r.spread = all[2].spread();
  // One rounding errs by 0.52 u. Unfused: gate, whose error silu makes 1.13 times as large, up,
  // their product, and what NCCL's ring rounds at every hop (1.15 u). Fused: the product, then
  // partials and their sum (0.72 u). All independent.
  const double u = unit_roundoff(DType::bf16);
  r.allowed = u * std::sqrt(0.52 * 0.52 * (1.13 * 1.13 + 1 + 1 + 1) + 1.15 * 1.15 + 0.72 * 0.72);
  r.difference = std::max(distance(row, all[2], all[1]), distance(row, all[3], all[1]));
  return r;
}

}  // namespace tilelace::gpu_test
