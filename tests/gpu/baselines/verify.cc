// SPDX-License-Identifier: Apache-2.0
#include "verify.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/cuda_check.h"
#include "core/half.h"
#include "gemm/data.h"
#include "schedule/rows.h"

namespace tilelace::gpu_test {
namespace {

constexpr std::int64_t kSamples = 4096;
constexpr std::int64_t kRowsOfShard = 4;
// Far apart: neighbouring seeds give sparse rows that share most of their places.
constexpr std::uint64_t kGatherSeed = 9ULL << 40U, kInputSeed = 10ULL << 40U,
                        kWeightSeed = 11ULL << 40U, kSeedStep = 1ULL << 34U;
// Of one rounding and fp32 partials, or of partials that were rounded too (split k).
constexpr double kErrorOfU = 0.72;

/// Some rows of the shard, the same on every rank.
std::vector<std::int64_t> sampled_rows(const Row& row, int shard) {
  const std::int64_t rows = row.gemm.m / row.ranks;
  std::vector<std::int64_t> some;
  for (std::int64_t i = 0; i < std::min(rows, kRowsOfShard); ++i)
    some.push_back(shard * rows + (i * 7919 + shard * 31) % rows);
  some.push_back(shard * rows);
  some.push_back(shard * rows + rows - 1);
  return some;
}

std::vector<std::int64_t> sampled_rows(const Row& row) {
  std::vector<std::int64_t> all;
  for (int s = 0; s < row.ranks; ++s)
    for (const std::int64_t r : sampled_rows(row, s)) all.push_back(r);
  return all;
}

}  // namespace

Verified Verifier::check(const Row& row, const Variant& variant) {
  // The last call's tensors: tensors have different numbers of copies, so that an earlier call's
  // result may have been overwritten by a call with other operands.
  const Call call = operands_.call(variant.buffer, variant.calls - 1);
  Verified v =
      row.op == Op::ag_gemm ? check_gather(row, call, variant) : check_sum(row, call, variant);
  if (!v.trouble.empty())
    v.trouble = fmt::format("{} rank {}: {}", variant.name, rank_.rank, v.trouble);
  std::string all;
  for (const std::string& text : rank_.group->all_gather(v.trouble, kMeetSeconds))
    if (!text.empty()) all += (all.empty() ? "" : "; ") + text;
  v.trouble = all;
  if (v.error) v.error = rank_.max(*v.error);
  if (v.exact) v.exact = all.empty();
  return v;
}

Verified Verifier::check_gather(const Row& row, const Call& call, const Variant& variant) {
  const DType dtype = row.gemm.dtype;
  // Only the fused op takes m as it is; the others fill it up, and write one wide result.
  const bool fused = variant.method == Method::fused;
  const schedule::RowSplit split{fused ? row.m : row.gemm.m, row.ranks, nullptr};
  const auto elements = [&](std::int64_t rows) { return static_cast<std::size_t>(rows * row.k); };
  const auto seed = [](int r) { return kGatherSeed + static_cast<std::uint64_t>(r) * kSeedStep; };
  test::poison(call.moved, row.moved_bytes(), rank_.stream);
  test::poison(call.gemm.out, row.kept_bytes(), rank_.stream);
  const auto own = split.shard(rank_.rank);
  if (own.size() > 0)
    test::fill_normal(operands_.own_rows(row, call), elements(own.size()), dtype, seed(rank_.rank),
                      rank_.stream);
  for (int r = 0; r < row.ranks; ++r) {
    const auto shard = split.shard(r);
    if (shard.size() > 0)
      test::fill_normal(operands_.reference() + row.bytes_of(shard.begin, row.k),
                        elements(shard.size()), dtype, seed(r), rank_.stream);
  }
  finish();
  timer_.replay(variant);
  const int products = fused ? row.weights : 1;
  const plan::GemmProblem p{split.m, row.gemm.n / products, row.k, dtype};
  Verified v;
  for (int i = 0; i < products; ++i) {
    const auto* weight =
        static_cast<const std::byte*>(call.gemm.weight) + row.bytes_of(i * p.n, p.k);
    const auto* out = static_cast<const std::byte*>(call.gemm.out) + row.bytes_of(i * p.m, p.n);
    const auto j = test::judge({operands_.reference(), weight, nullptr, out, p, Activation::none},
                               kSamples, false, 0, rank_.stream);
    // A NaN stays: it is the largest error there is.
    if (!v.error || !(j.relative() <= *v.error)) v.error = j.relative();
    const double limit = kErrorOfU * unit_roundoff(dtype);
    if (!(j.relative() <= limit))
      v.trouble += fmt::format(
          "{}product {}: relative error, got {:.5f} ({} of {} places off, rows {} to {} of m {}, "
          "row "
          "{} col {} is {} and not {}), expected at most {:.5f}",
          v.trouble.empty() ? "" : "; ", i, j.relative(), j.wrong, j.checked, j.first_row,
          j.last_row, p.m, j.row, j.col, j.got, j.expected, limit);
  }
  return v;
}

Verified Verifier::check_sum(const Row& row, const Call& call, const Variant& variant) {
  const plan::GemmProblem& p = row.gemm;
  const auto self = static_cast<std::uint64_t>(rank_.rank);
  test::fill_sparse(const_cast<void*>(call.gemm.a), p.m, p.k, std::min(32, 256 / row.ranks),
                    p.dtype, kInputSeed + self * kSeedStep, rank_.stream);
  test::fill_sparse(const_cast<void*>(call.gemm.weight), p.n, p.k, static_cast<int>(p.k / 2),
                    p.dtype, kWeightSeed + self * kSeedStep, rank_.stream);
  test::poison(call.moved, row.moved_bytes(), rank_.stream);
  test::poison(call.result, row.result_bytes(), rank_.stream);
  finish();
  timer_.replay(variant);
  Verified v;
  v.exact = true;
  const auto j =
      test::judge({call.gemm.a, call.gemm.weight, nullptr, call.moved, p, Activation::none},
                  kSamples, true, 0, rank_.stream);
  if (j.wrong != 0)
    v.trouble = fmt::format(
        "partial sums, got {} of {} places wrong (row {} col {} is {}), expected "
        "none ({})",
        j.wrong, j.checked, j.row, j.col, j.got, j.expected);
  const std::string sum = compare_rows(row, call);
  if (v.trouble.empty()) v.trouble = sum;
  return v;
}

std::vector<std::byte> Verifier::fetch_rows(const Row& row, const std::byte* from,
                                            const std::vector<std::int64_t>& rows) const {
  const std::size_t bytes = row.bytes_of(1, row.hidden());
  std::vector<std::byte> all(rows.size() * bytes);
  for (std::size_t i = 0; i < rows.size(); ++i)
    cuda::check(cudaMemcpy(all.data() + i * bytes, from + static_cast<std::size_t>(rows[i]) * bytes,
                           bytes, cudaMemcpyDeviceToHost),
                "rows of a result");
  return all;
}

std::string Verifier::compare_rows(const Row& row, const Call& call) {
  const DType dtype = row.gemm.dtype;
  board_.at(static_cast<std::size_t>(rank_.rank)) = fetch_rows(row, call.moved, sampled_rows(row));
  rank_.meet();
  const bool scattered = row.op == Op::gemm_rs;
  const auto mine = scattered ? sampled_rows(row, rank_.rank) : sampled_rows(row);
  const std::int64_t skipped = scattered ? row.gemm.m / row.ranks * rank_.rank : 0;
  auto own = mine;
  for (auto& r : own) r -= skipped;
  const auto got = fetch_rows(row, call.result, own);
  // Where the own rows begin among everyone's.
  const std::int64_t first = scattered ? static_cast<std::int64_t>(mine.size()) * rank_.rank : 0;
  const std::int64_t hidden = row.hidden();
  std::string trouble;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(mine.size()) * hidden; ++i) {
    float sum = 0;
    for (const auto& part : board_) sum += load_element(part.data(), dtype, first * hidden + i);
    const float have = load_element(got.data(), dtype, i);
    if (have == sum) continue;
    trouble = fmt::format("sum in row {} col {}, got {}, expected {}",
                          mine.at(static_cast<std::size_t>(i / hidden)), i % hidden, have, sum);
    break;
  }
  rank_.meet();  // nobody lays out new parts while a peer reads
  return trouble;
}

}  // namespace tilelace::gpu_test
