// SPDX-License-Identifier: Apache-2.0
// The reducing ops' side of the verifier: small integers, whose sums are exact in every order.
#include <algorithm>
#include <cstring>

#include "backend/cuda/cuda_check.h"
#include "core/half.h"
#include "gemm/data.h"
#include "ops/stress_kernels.h"
#include "shard_sums.h"
#include "verify.h"

namespace tilelace::gpu_test {
namespace {

constexpr std::int64_t kSumSamples = 4096;
constexpr std::int64_t kRowsOfShard = 4;
// Far apart: neighbouring seeds give sparse rows that share most of their places.
constexpr std::uint64_t kInputSeed = 10ULL << 40U, kWeightSeed = 11ULL << 40U,
                        kSumSeedStep = 1ULL << 34U;

/// Some rows of the shard, the same on every rank.
std::vector<std::int64_t> sampled_rows(const schedule::RowSplit& split, int shard) {
  const auto range = split.shard(shard);
  const std::int64_t rows = range.size();
  std::vector<std::int64_t> some;
  if (rows == 0) return some;
  for (std::int64_t i = 0; i < std::min(rows, kRowsOfShard); ++i)
    some.push_back(range.begin + (i * 7919 + shard * 31) % rows);
  some.push_back(range.begin);
  some.push_back(range.end - 1);
  return some;
}

/// Shards that are in a rank's result.
schedule::RowRange shards_of(const Row& row, int rank) {
  return row.op == Op::gemm_rs ? schedule::RowRange{rank, rank + 1}
                               : schedule::RowRange{0, row.ranks};
}

}  // namespace

std::byte* Verifier::scratch(std::size_t bytes) {
  if (bytes > scratch_bytes_) {
    void* p = nullptr;
    scratch_.reset();
    cuda::check(cudaMalloc(&p, bytes), "memory of a check");
    scratch_.reset(p);
    scratch_bytes_ = bytes;
  }
  return static_cast<std::byte*>(scratch_.get());
}

void Verifier::publish(const void* device, std::size_t bytes) {
  finish();
  rank_.meet();
  auto& mine = board_.at(static_cast<std::size_t>(rank_.rank));
  mine.resize(bytes);
  cuda::check(cudaMemcpy(mine.data(), device, bytes, cudaMemcpyDeviceToHost), "results of a check");
  rank_.meet();
}

Verified Verifier::check_sum(const Row& row, const Call& call, const Variant& variant) {
  // Only the fused op takes m as it is; the others fill it up, and lay their partial sums out.
  const bool fused = variant.method == Method::fused;
  const schedule::RowSplit split{fused ? row.m : row.gemm.m, row.ranks, nullptr};
  const plan::GemmProblem p{split.m, row.gemm.n, row.gemm.k, row.gemm.dtype};
  const auto self = static_cast<std::uint64_t>(rank_.rank);
  test::fill_sparse(const_cast<void*>(call.gemm.a), p.m, p.k, std::min(32, 256 / row.ranks),
                    p.dtype, kInputSeed + self * kSumSeedStep, rank_.stream);
  test::fill_sparse(const_cast<void*>(call.gemm.weight), p.n, p.k, static_cast<int>(p.k / 2),
                    p.dtype, kWeightSeed + self * kSumSeedStep, rank_.stream);
  test::poison(call.moved, row.moved_bytes(), rank_.stream);
  test::poison(call.result, row.result_bytes(), rank_.stream);
  finish();
  timer_.replay(variant);
  Verified v;
  v.exact = true;
  if (!fused) {
    const auto j =
        test::judge({call.gemm.a, call.gemm.weight, nullptr, call.moved, p, Activation::none},
                    kSumSamples, true, 0, rank_.stream);
    if (j.wrong != 0)
      v.trouble = fmt::format(
          "partial sums, got {} of {} places wrong (row {} col {} is {}), expected none ({})",
          j.wrong, j.checked, j.row, j.col, j.got, j.expected);
  }
  for (const std::string& found :
       {compare_rows(row, call, split), compare_totals(row, call, split)})
    if (!found.empty()) v.trouble += (v.trouble.empty() ? "" : "; ") + found;
  return v;
}

std::string Verifier::compare_rows(const Row& row, const Call& call,
                                   const schedule::RowSplit& split) {
  const plan::GemmProblem p{1, row.gemm.n, row.gemm.k, row.gemm.dtype};
  const std::size_t width = row.bytes_of(1, p.n);
  Rows rows;
  std::int64_t mine = 0;  // among them, the first that is in the own result
  const auto held = shards_of(row, rank_.rank);
  for (int s = 0; s < row.ranks; ++s) {
    if (s == held.begin) mine = std::ssize(rows);
    for (const std::int64_t r : sampled_rows(split, s)) rows.push_back(r);
  }
  std::byte* const products = scratch(rows.size() * width);
  for (std::size_t i = 0; i < rows.size(); ++i)
    cuda::check(
        enqueue_product({static_cast<const std::byte*>(call.gemm.a) + row.bytes_of(rows[i], p.k),
                         call.gemm.weight, products + i * width, p},
                        rank_.stream),
        "a row of a reference");
  publish(products, rows.size() * width);
  const auto result = split.shard(static_cast<int>(held.begin)).begin;
  const auto end = split.shard(static_cast<int>(held.end) - 1).end;
  std::vector<std::byte> got(width);
  for (auto i = static_cast<std::size_t>(mine); i < rows.size() && rows[i] < end; ++i) {
    cuda::check(cudaMemcpy(got.data(), call.result + row.bytes_of(rows[i] - result, p.n), width,
                           cudaMemcpyDeviceToHost),
                "a row of a result");
    for (std::int64_t col = 0; col < p.n; ++col) {
      const std::int64_t at = static_cast<std::int64_t>(i) * p.n + col;
      float sum = 0;
      for (const auto& part : board_) sum += load_element(part.data(), p.dtype, at);
      const float have = load_element(got.data(), p.dtype, col);
      if (have != sum)
        return fmt::format("sum in row {} col {}, got {}, expected {}", rows[i], col, have, sum);
    }
  }
  return {};
}

std::string Verifier::compare_totals(const Row& row, const Call& call,
                                     const schedule::RowSplit& split) {
  const plan::GemmProblem& p = row.gemm;
  const auto n = static_cast<std::size_t>(p.n);
  const std::size_t shards = static_cast<std::size_t>(row.ranks);
  // One total of rows, then the product of each shard's with the weight.
  auto* const total = reinterpret_cast<double*>(
      scratch((static_cast<std::size_t>(std::max(p.k, p.n)) + shards * n) * sizeof(double)));
  double* const products = total + std::max(p.k, p.n);
  for (std::size_t s = 0; s < shards; ++s) {
    const auto range = split.shard(static_cast<int>(s));
    cuda::check(enqueue_row_total(
                    {static_cast<const std::byte*>(call.gemm.a) + row.bytes_of(range.begin, p.k),
                     range.size(), p.k, p.dtype},
                    total, rank_.stream),
                "a total of rows");
    cuda::check(enqueue_total_product(total, {call.gemm.weight, p.n, p.k, p.dtype},
                                      products + s * n, rank_.stream),
                "a total of products");
  }
  publish(products, shards * n * sizeof(double));
  const auto held = shards_of(row, rank_.rank);
  const auto first = split.shard(static_cast<int>(held.begin)).begin;
  std::vector<double> got(n);
  for (std::int64_t s = held.begin; s < held.end; ++s) {
    const auto range = split.shard(static_cast<int>(s));
    cuda::check(enqueue_row_total({call.result + row.bytes_of(range.begin - first, p.n),
                                   range.size(), p.n, p.dtype},
                                  total, rank_.stream),
                "a total of results");
    finish();
    cuda::check(cudaMemcpy(got.data(), total, n * sizeof(double), cudaMemcpyDeviceToHost),
                "a total of results");
    for (std::size_t col = 0; col < n; ++col) {
      double sum = 0;
      for (const auto& part : board_) {
        double term = 0;
        std::memcpy(&term, part.data() + (static_cast<std::size_t>(s) * n + col) * sizeof term,
                    sizeof term);
        sum += term;
      }
      if (got[col] != sum)
        return fmt::format("check sum of rows {} to {} col {}, got {}, expected {}", range.begin,
                           range.end - 1, col, got[col], sum);
    }
  }
  return {};
}

}  // namespace tilelace::gpu_test
