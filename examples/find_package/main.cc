// SPDX-License-Identifier: Apache-2.0
// The smallest whole program: four ranks, one all-gather + GEMM, one value looked at.
#include <cstdio>
#include <exception>
#include <thread>
#include <vector>

#include "tilelace/tilelace.h"

namespace {

constexpr int kRanks = 4;
constexpr std::int64_t kM = 64, kN = 32, kK = 16;  // 16 rows a rank, 32 columns a rank

/// Rank r's rows of A are all r + 1, its weight is all 1: a row of shard q gives kK * (q + 1).
bool run_rank(tilelace::Communicator& comm) {
  const auto fp32 = tilelace::DType::fp32;
  std::vector<float> a(kM / kRanks * kK, static_cast<float>(comm.rank() + 1));
  std::vector<float> weight(kN * kK, 1.0F), out(kM * kN);
  const tilelace::TensorView weights[] = {dense(weight.data(), fp32, kN, kK)};
  const tilelace::TensorView outs[] = {dense(out.data(), fp32, kM, kN)};

  // Sizes staging and packs the weight; every rank calls it with the same problems.
  tilelace::Preparation preparation;
  preparation.problem.op = tilelace::Op::ag_gemm;
  preparation.problem.ranks = kRanks;
  preparation.problem.m = kM;
  preparation.problem.n = {kN};
  preparation.problem.k = kK;
  preparation.problem.dtype = fp32;
  preparation.weights = {weights[0]};
  comm.prepare({&preparation, 1});

  // The call itself: blocks until `out` is whole on this rank.
  tilelace::AgGemmArgs args;
  args.m = kM;
  args.a = dense(a.data(), fp32, kM / kRanks, kK);
  args.weights = weights;
  args.out = outs;
  tilelace::ag_gemm(comm, args);

  return out.front() == kK * 1.0F && out.back() == kK * static_cast<float>(kRanks);
}

}  // namespace

int main() {
  auto comms = tilelace::Communicator::threads(kRanks);  // element r is rank r
  std::vector<int> right(kRanks, 0);
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      try {
        right[r] = run_rank(comms[r]) ? 1 : 0;
      } catch (const std::exception& e) {
        std::fprintf(stderr, "rank %d: %s\n", r, e.what());
        comms[r].abort();  // so that the peers do not wait for this rank
      }
    });
  }
  int all = 0;
  for (int r = 0; r < kRanks; ++r) {
    threads[r].join();
    all += right[r];
  }
  std::printf("find_package: %d of %d ranks right\n", all, kRanks);
  return all == kRanks ? 0 : 1;
}
