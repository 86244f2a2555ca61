// SPDX-License-Identifier: Apache-2.0
#include "recorder.h"

#include <algorithm>
#include <cmath>

#include "backend/cuda/cuda_check.h"
#include "backend/cuda/trace.h"

namespace tilelace::gpu_test {
namespace {

constexpr int kKept = 8;              ///< calls that are accounted for
constexpr int kMostLaunches = 3;      ///< of a call
constexpr int kMostCtas = 264;        ///< of a launch
constexpr int kMostEvents = 1536;     ///< of a CTA
constexpr double kGraphGuessUs = 50;  ///< makes graphs of 20 calls
constexpr int kMostCalls = 34;        ///< in a graph, and the two before

int multiprocessors(int device) {
  int count = 0;
  cuda::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
              "multiprocessor count");
  return count;
}

std::uint64_t first_ns(const std::vector<cuda::TracedLaunch>& launches) {
  std::uint64_t least = ~std::uint64_t{0};
  for (const auto& launch : launches)
    for (const auto& cta : launch.ctas) least = std::min(least, cta.front().ns);
  return least;
}

/// The launches of the last `calls` calls of `all`.
std::vector<cuda::TracedLaunch> last_calls(std::vector<cuda::TracedLaunch> launches, int all,
                                           int calls) {
  const auto each = std::ssize(launches) / all;
  launches.erase(launches.begin(), launches.end() - each * calls);
  return launches;
}

int chunks_of(const Row& row, const OpPlan& plan) {
  const auto* gather = std::get_if<plan::AgGemmPlan>(&plan);
  if (gather == nullptr) return 0;
  return static_cast<int>((row.shard_rows() + gather->chunk_rows - 1) / gather->chunk_rows);
}

}  // namespace

std::vector<CallAccount> Recording::accounts(int multiprocessors) const {
  std::vector<CallAccount> all;
  for (std::size_t i = 1; i < calls.size(); ++i)
    all.push_back(account_of(calls[i], calls[i - 1].end_us, multiprocessors));
  return all;
}

RankRecorder::RankRecorder(Rank& rank, cuda::NcclGroup& nccl, const std::vector<Row>& rows,
                           const Options& options)
    : rank_(rank),
      nccl_(nccl),
      options_(options),
      operands_(rank, nccl, rows, {cuda::NcclBuffer::plain}),
      timer_(rank, nccl),
      gemms_(rank, timer_, operands_, options.gemms),
      fused_(rank, timer_, operands_, rows, options.fused) {}

std::uint64_t RankRecorder::origin_ns(const std::vector<cuda::TracedLaunch>& launches,
                                      double offset_ns) const {
  constexpr double kHalf = 4294967296.0;  // numbers of 64 bits do not fit a double
  const std::uint64_t own = first_ns(launches);
  const auto all = rank_.gather(
      {std::floor(static_cast<double>(own >> 32)), static_cast<double>(own & 0xFFFFFFFFU)});
  const auto zero = static_cast<std::uint64_t>(all[0][0]) * static_cast<std::uint64_t>(kHalf) +
                    static_cast<std::uint64_t>(all[0][1]);
  return zero + static_cast<std::uint64_t>(static_cast<std::int64_t>(offset_ns));
}

Recording RankRecorder::record(const std::string& plan, const Launch& launch,
                               const std::function<void()>& finish) {
  cuda::TraceRecorder recorder(kMostCalls * kMostLaunches, kMostCtas, kMostEvents);
  std::vector<Variant> variants(2);
  for (const bool traced : {false, true}) {
    Variant& v = variants[traced ? 1 : 0];
    v.name = plan;
    v.finish = finish;
    v.launch = [&recorder, &launch, traced](int i) {
      if (traced) cuda::record_launches(&recorder);
      launch(i);
      cuda::record_launches(nullptr);
    };
    timer_.prepare(v, kGraphGuessUs);
  }
  Recording r;
  r.plan = plan;
  timer_.rounds(variants, options_.rounds, options_.lengths);
  timer_.sample(variants[1], options_.lengths);  // what is read: the last graph of these
  r.us = variants[0].median();
  r.traced_us = variants[1].median();
  // Two calls came before those of the graph.
  const auto launches = last_calls(recorder.read(), variants[1].calls + 2, kKept + 1);
  clock_ = clock_offset(rank_);
  r.resolution_ns = resolution_ns(launches);
  r.calls = call_lines(launches, kKept + 1, origin_ns(launches, clock_.ns));
  return r;
}

Recording RankRecorder::product(const plan::GemmPlan& plan, const plan::GemmProblem& p) {
  return record(describe(plan),
                [&](int i) {
                  const auto tensors = operands_.call(cuda::NcclBuffer::plain, i).gemm;
                  cuda::GemmCall(plan, p, tensors, workspace_.scratch()).launch(rank_.stream);
                },
                {});
}

RankRow RankRecorder::run(const Row& row) {
  operands_.use(row);
  RankRow r;
  r.multiprocessors = multiprocessors(rank_.device);
  auto choices = fused_.choose(row);
  const auto chosen = std::find_if(choices.begin(), choices.end(), [&](const FusedChoice& c) {
    return path_of(c.plan) == Path::fused || !options_.fused.only.empty();
  });
  require(chosen != choices.end(), "{}: {}, got no fused plan, expected one", name_of(row.op),
          text_of(row.problem()));
  r.chunks = chunks_of(row, chosen->plan);
  r.fused = record(describe(chosen->plan), chosen->variant.launch, chosen->variant.finish);
  r.clock = clock_;
  const BestBlas& blas = gemms_.blas(row.gemm);
  Variant v;
  v.name = "cublas";
  v.launch = [&](int i) {
    blas.launch(operands_.call(cuda::NcclBuffer::plain, i).gemm, rank_.stream);
  };
  timer_.prepare(v, kGraphGuessUs);
  std::vector<Variant> alone;
  alone.push_back(std::move(v));
  timer_.rounds(alone, options_.rounds, options_.lengths);
  r.blas_us = alone.front().median();
  r.same = product(gemm_of(chosen->plan), row.gemm);
  r.best = product(gemms_.own(row.gemm).plan, row.gemm);
  return r;
}

}  // namespace tilelace::gpu_test
