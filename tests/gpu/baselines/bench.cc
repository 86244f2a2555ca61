// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

#include <algorithm>
#include <cmath>

namespace tilelace::gpu_test {
namespace {

using cuda::NcclBuffer;

constexpr Lengths kLook{12, 6};
constexpr std::size_t kFinalists = 3;
constexpr int kFinalRounds = 4;

double guess_gemm_us(const plan::GemmProblem& p) {
  const double flops =
      2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  const double bytes = 2.0 * static_cast<double>(p.m * p.k + p.n * p.k + p.m * p.n);
  return 5 + std::max(flops / 700e6, bytes / 4.2e6);
}

}  // namespace

RankBench::RankBench(Rank& rank, cuda::NcclGroup& nccl, const std::vector<Row>& rows,
                     const BenchOptions& options, Board& board)
    : rank_(rank),
      nccl_(nccl),
      options_(options),
      operands_(rank, nccl, rows),
      timer_(rank, nccl),
      verifier_(rank, nccl, timer_, operands_, board) {}

const RankBench::BestGemm& RankBench::best_gemm(const Row& row, double guess_us) {
  const Shape shape{row.gemm.m, row.gemm.n, row.gemm.k};
  if (const auto known = best_.find(shape); known != best_.end()) return known->second;
  auto blas = std::make_unique<cuda::CublasGemm>(row.gemm, options_.algorithms);
  const int count = static_cast<int>(-rank_.max(-blas->algorithms()));
  std::vector<Variant> all;
  for (int i = 0; i < count; ++i) {
    Variant v;
    v.name = blas->describe(i);
    v.launch = [this, i, &b = *blas](int c) {
      b.launch(operands_.call(NcclBuffer::plain, c).gemm, i, rank_.stream);
    };
    timer_.prepare(v, guess_us);
    all.push_back(std::move(v));
  }
  // Once forwards, once backwards: clocks drift while they run.
  std::vector<double> seen(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) seen[i] = timer_.sample(all[i], kLook);
  for (std::size_t i = all.size(); i-- > 0;)
    all[i].quick_us = (seen[i] + timer_.sample(all[i], kLook)) / 2;
  std::sort(all.begin(), all.end(),
            [](const Variant& x, const Variant& y) { return x.quick_us < y.quick_us; });
  while (all.size() > kFinalists) all.pop_back();
  timer_.rounds(all, kFinalRounds, options_.lengths);
  const auto best =
      std::min_element(all.begin(), all.end(),
                       [](const Variant& x, const Variant& y) { return x.median() < y.median(); });
  int algorithm = 0;
  while (blas->describe(algorithm) != best->name) ++algorithm;
  return best_.emplace(shape, BestGemm{std::move(blas), algorithm, best->name}).first->second;
}

void RankBench::collective(const Row& row, const Call& call) {
  const std::size_t shard = row.shard_elements();
  const DType dtype = row.gemm.dtype;
  const std::size_t own = static_cast<std::size_t>(rank_.rank) * shard * size_of(dtype);
  switch (row.op) {
    case Op::ag_gemm:
      nccl_.all_gather(call.moved + own, call.moved, shard, dtype, rank_.stream);
      break;
    case Op::gemm_rs:
      nccl_.reduce_scatter(call.moved, call.result, shard, dtype, rank_.stream);
      break;
    case Op::gemm_ar:
      nccl_.all_reduce(call.moved, call.result, shard * static_cast<std::size_t>(row.ranks), dtype,
                       rank_.stream);
      break;
  }
}

Figures RankBench::run(const Row& row) {
  operands_.use(row);
  const double gemm_us = guess_gemm_us(row.gemm);
  const double collective_us = 10 + row.wire_bytes() / 350e3;
  const BestGemm& best = best_gemm(row, gemm_us);
  const auto gemm = [&](const Call& call) {
    best.blas->launch(call.gemm, best.algorithm, rank_.stream);
  };
  std::vector<Variant> variants(1);
  variants[0].name = "gemm";
  variants[0].launch = [&](int i) { gemm(operands_.call(NcclBuffer::plain, i)); };
  timer_.prepare(variants[0], gemm_us);
  for (const NcclBuffer kind : operands_.kinds()) {
    Variant alone;
    alone.name = name_of(kind);
    alone.launch = [&, kind](int i) { collective(row, operands_.call(kind, i)); };
    Variant both;
    both.name = fmt::format("unfused_{}", name_of(kind));
    both.launch = [&, kind](int i) {
      const Call call = operands_.call(kind, i);
      if (row.op != Op::ag_gemm) gemm(call);
      collective(row, call);
      if (row.op == Op::ag_gemm) gemm(call);
    };
    timer_.prepare(alone, collective_us);
    timer_.prepare(both, gemm_us + collective_us);
    variants.push_back(std::move(alone));
    variants.push_back(std::move(both));
  }
  timer_.rounds(variants, options_.rounds, options_.lengths);
  Figures f;
  f.plan = best.name;
  f.gemm = {variants[0].median(), variants[0].spread()};
  for (std::size_t i = 0; i < operands_.kinds().size(); ++i) {
    const Variant& alone = variants[1 + 2 * i];
    const Variant& both = variants[2 + 2 * i];
    f.collective.emplace_back(operands_.kinds()[i], Figure{alone.median(), alone.spread()});
    f.unfused.emplace_back(operands_.kinds()[i], Figure{both.median(), both.spread()});
  }
  f.verified = verify(row, variants);
  return f;
}

Verified RankBench::verify(const Row& row, const std::vector<Variant>& variants) {
  Verified all;
  for (std::size_t i = 0; i < operands_.kinds().size(); ++i) {
    const Verified v = verifier_.check(row, operands_.kinds()[i], variants[2 + 2 * i]);
    // A NaN stays: it is the largest error there is.
    if (v.error && (!all.error || !(*v.error <= *all.error))) all.error = v.error;
    if (v.exact) all.exact = all.exact.value_or(true) && *v.exact;
    if (!v.trouble.empty()) all.trouble += (all.trouble.empty() ? "" : "; ") + v.trouble;
  }
  return all;
}

}  // namespace tilelace::gpu_test
