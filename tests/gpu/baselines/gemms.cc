// SPDX-License-Identifier: Apache-2.0
#include "gemms.h"

#include <algorithm>

namespace tilelace::gpu_test {
namespace {

using cuda::NcclBuffer;

constexpr std::size_t kGemmFinalists = 3;
constexpr int kGemmFinalRounds = 4;
constexpr int kMostCalls = 32;  // in a graph

}  // namespace

double guess_gemm_us(const plan::GemmProblem& p) {
  const double flops =
      2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  const double bytes = 2.0 * static_cast<double>(p.m * p.k + p.n * p.k + p.m * p.n);
  return 5 + std::max(flops / 700e6, bytes / 4.2e6);
}

Gemms::Gemms(Rank& rank, Timer& timer, const Operands& operands, const Options& options)
    : rank_(rank), timer_(timer), operands_(operands), options_(options) {
  cuda::load_gemm_kernels();
}

const BestBlas& Gemms::blas(const plan::GemmProblem& p) {
  const Shape shape{p.m, p.n, p.k};
  if (const auto known = blas_.find(shape); known != blas_.end()) return known->second;
  auto blas = std::make_unique<cuda::CublasGemm>(p, options_.algorithms);
  const int count = static_cast<int>(-rank_.max(-blas->algorithms()));
  std::vector<Variant> all;
  for (int i = 0; i < count; ++i) {
    Variant v;
    v.name = blas->describe(i);
    v.index = static_cast<std::size_t>(i);
    v.launch = [this, i, &b = *blas](int c) {
      b.launch(operands_.call(NcclBuffer::plain, c).gemm, i, rank_.stream);
    };
    timer_.prepare(v, guess_gemm_us(p));
    all.push_back(std::move(v));
  }
  timer_.select(all, kGemmFinalists, kGemmFinalRounds, options_.lengths);
  const auto best = static_cast<int>(all.front().index);
  return blas_.emplace(shape, BestBlas{std::move(blas), best, all.front().name}).first->second;
}

const BestBlas& Gemms::twin(const plan::GemmProblem& p) {
  const Shape shape{p.m, p.n, p.k};
  BestBlas& twin = twins_[shape];
  if (twin.blas != nullptr) return twin;
  const BestBlas& best = blas_.at(shape);
  twin = {std::make_unique<cuda::CublasGemm>(p, options_.algorithms), best.algorithm, best.name};
  return twin;
}

Variant Gemms::variant(const plan::GemmPlan& plan, const plan::GemmProblem& p) const {
  Variant v;
  v.name = describe(plan);
  auto calls = std::make_shared<std::vector<cuda::GemmCall>>();
  for (int i = 0; i < kMostCalls; ++i)
    calls->emplace_back(plan, p, operands_.call(NcclBuffer::plain, i).gemm, workspace_.scratch());
  v.launch = [this, calls](int i) {
    (*calls)[static_cast<std::size_t>(i) % calls->size()].launch(rank_.stream);
  };
  return v;
}

const BestOwn& Gemms::own(const plan::GemmProblem& p) {
  const Shape shape{p.m, p.n, p.k};
  if (const auto known = own_.find(shape); known != own_.end()) return known->second;
  auto plans = plan::gemm_candidates(p);
  std::erase_if(plans, [&](const plan::GemmPlan& x) { return !cuda::has_kernel(x, p.dtype); });
  plans.resize(std::min(plans.size(), static_cast<std::size_t>(std::max(1, options_.plans))));
  std::vector<Variant> all;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    Variant v = variant(plans[i], p);
    v.index = i;
    timer_.prepare(v, guess_gemm_us(p));
    all.push_back(std::move(v));
  }
  timer_.select(all, kGemmFinalists, kGemmFinalRounds, options_.lengths);
  return own_.emplace(shape, BestOwn{plans[all.front().index], all.front().name}).first->second;
}

}  // namespace tilelace::gpu_test
