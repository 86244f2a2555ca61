// SPDX-License-Identifier: Apache-2.0
// All-gather + GEMM over four ranks, each a thread of this process.
//
// Every rank holds some rows of A and its own slice of the weight's rows (the output's columns).
// The call gathers A while the product of what has arrived is computed.
#include <cstdio>
#include <exception>
#include <thread>
#include <vector>

#include "tilelace/tilelace.h"

namespace {

constexpr int kRanks = 4;
constexpr std::int64_t kRows = 200;  // of all ranks together
constexpr std::int64_t kDepth = 64;
constexpr std::int64_t kCols = 48;  // of one rank

float a_at(std::int64_t row, std::int64_t k) { return static_cast<float>((row + k) % 5) - 2; }
float w_at(int rank, std::int64_t col, std::int64_t k) {
  return static_cast<float>((rank + 2 * col + 3 * k) % 7) - 3;
}

/// What one rank does; true if its output is right.
bool run_rank(tilelace::Communicator& comm) {
  using tilelace::DType;
  const int rank = comm.rank();
  const std::int64_t rows = kRows / kRanks;

  // This rank's rows of A and its weight [n, k], as a linear layer stores it.
  std::vector<float> a(rows * kDepth), weight(kCols * kDepth), out(kRows * kCols);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t k = 0; k < kDepth; ++k) a[i * kDepth + k] = a_at(rank * rows + i, k);
  for (std::int64_t j = 0; j < kCols; ++j)
    for (std::int64_t k = 0; k < kDepth; ++k) weight[j * kDepth + k] = w_at(rank, j, k);
  const tilelace::TensorView weight_view = dense(weight.data(), DType::fp32, kCols, kDepth);
  const tilelace::TensorView out_view = dense(out.data(), DType::fp32, kRows, kCols);

  // Once: say which problems will come and with which weights. Collective.
  tilelace::Preparation preparation;
  preparation.problem = {.op = tilelace::Op::ag_gemm,
                         .ranks = kRanks,
                         .m = kRows,
                         .n = {kCols},
                         .k = kDepth,
                         .dtype = DType::fp32};
  preparation.weights = {weight_view};
  comm.prepare({&preparation, 1});

  // As often as wanted: the call. It returns when `out` is whole.
  tilelace::AgGemmArgs args;
  args.m = kRows;
  args.a = dense(a.data(), DType::fp32, rows, kDepth);
  args.weights = {&weight_view, 1};
  args.out = {&out_view, 1};
  tilelace::ag_gemm(comm, args);

  // Small integers: the sums are exact.
  for (std::int64_t i = 0; i < kRows; ++i) {
    for (std::int64_t j = 0; j < kCols; ++j) {
      float want = 0;
      for (std::int64_t k = 0; k < kDepth; ++k) want += a_at(i, k) * w_at(rank, j, k);
      if (out[i * kCols + j] != want) return false;
    }
  }
  return true;
}

}  // namespace

int main() {
  std::vector<tilelace::Communicator> comms = tilelace::Communicator::threads(kRanks);
  std::vector<int> right(kRanks, 0);
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      try {
        right[r] = run_rank(comms[r]) ? 1 : 0;
      } catch (const std::exception& e) {
        std::fprintf(stderr, "rank %d: %s\n", r, e.what());
        comms[r].abort();  // the peers need not wait for this rank
      }
    });
  }
  for (std::thread& t : threads) t.join();
  int all = 0;
  for (const int ok : right) all += ok;
  std::printf("ag_gemm: %d of %d ranks have the right product\n", all, kRanks);
  return all == kRanks ? 0 : 1;
}
