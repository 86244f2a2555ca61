// SPDX-License-Identifier: Apache-2.0
#include "verify.h"

#include "gemm/data.h"

namespace tilelace::gpu_test {
namespace {

constexpr std::int64_t kSamples = 4096;
// Far apart: neighbouring seeds give sparse rows that share most of their places.
constexpr std::uint64_t kGatherSeed = 9ULL << 40U, kSeedStep = 1ULL << 34U;
// Of one rounding and fp32 partials, or of partials that were rounded too (split k).
constexpr double kErrorOfU = 0.72;

}  // namespace

Verified Verifier::check(const Row& row, const Variant& variant) {
  // The last call's tensors: tensors have different numbers of copies, so that an earlier call's
  // result may have been overwritten by a call with other operands.
  Call call = operands_.call(variant.buffer, variant.calls - 1);
  if (variant.result) call.result = variant.result(variant.calls - 1);
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

}  // namespace tilelace::gpu_test
