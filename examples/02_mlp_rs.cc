// SPDX-License-Identifier: Apache-2.0
// A tensor-parallel MLP with sequence-parallel input and output, over four ranks.
//
//   hidden = silu(x * gate^T) * (x * up^T)   ag_gemm, both weights on one gather, SwiGLU fused in
//   y      = hidden * down^T                 gemm_rs
//
// Rank r holds rows r of x and y, columns r of the hidden layer.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <thread>
#include <vector>

#include "tilelace/tilelace.h"

namespace {

using tilelace::dense;
using tilelace::DType;
using tilelace::TensorView;

constexpr int kRanks = 4;
constexpr std::int64_t kTokens = 96, kModel = 64, kHidden = 128;
constexpr std::int64_t kRows = kTokens / kRanks, kSlice = kHidden / kRanks;

/// Element (row, col) of one of the four matrices: small, different, the same on every rank.
float value(int matrix, std::int64_t row, std::int64_t col) {
  return 0.2F * std::sin(static_cast<float>(matrix + 1) * 0.7F + static_cast<float>(row) * 1.3F +
                         static_cast<float>(col) * 2.1F);
}
enum Matrix { kX, kGate, kUp, kDown };

std::vector<float> block(int matrix, std::int64_t row, std::int64_t rows, std::int64_t col,
                         std::int64_t cols) {
  std::vector<float> data(rows * cols);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j) data[i * cols + j] = value(matrix, row + i, col + j);
  return data;
}

/// This rank's rows of y.
std::vector<float> mlp(tilelace::Communicator& comm) {
  const int r = comm.rank();
  std::vector<float> x = block(kX, r * kRows, kRows, 0, kModel);
  std::vector<float> gate = block(kGate, r * kSlice, kSlice, 0, kModel);
  std::vector<float> up = block(kUp, r * kSlice, kSlice, 0, kModel);
  std::vector<float> down = block(kDown, 0, kModel, r * kSlice, kSlice);
  std::vector<float> hidden(kTokens * kSlice), y(kRows * kModel);

  const TensorView gate_up[] = {dense(gate.data(), DType::fp32, kSlice, kModel),
                                dense(up.data(), DType::fp32, kSlice, kModel)};
  const TensorView down_view = dense(down.data(), DType::fp32, kModel, kSlice);
  const TensorView hidden_view = dense(hidden.data(), DType::fp32, kTokens, kSlice);

  tilelace::Preparation prepared[2];
  prepared[0].problem = {.op = tilelace::Op::ag_gemm,
                         .ranks = kRanks,
                         .m = kTokens,
                         .n = {kSlice, kSlice},
                         .k = kModel,
                         .dtype = DType::fp32,
                         .activation = tilelace::Activation::swiglu};
  prepared[0].weights = {gate_up[0], gate_up[1]};
  prepared[1].problem = {.op = tilelace::Op::gemm_rs,
                         .ranks = kRanks,
                         .m = kTokens,
                         .n = {kModel},
                         .k = kSlice,
                         .dtype = DType::fp32};
  prepared[1].weights = {down_view};
  comm.prepare(prepared);

  tilelace::AgGemmArgs first;
  first.m = kTokens;
  first.a = dense(x.data(), DType::fp32, kRows, kModel);
  first.weights = gate_up;
  first.activation = tilelace::Activation::swiglu;
  first.out = {&hidden_view, 1};
  tilelace::ag_gemm(comm, first);

  tilelace::GemmReduceArgs second;
  second.m = kTokens;
  second.x = hidden_view;
  second.weight = down_view;
  second.out = dense(y.data(), DType::fp32, kRows, kModel);
  tilelace::gemm_rs(comm, second);
  return y;
}

/// The largest difference of these rows to the MLP on one rank, in fp64.
double error_of(const std::vector<float>& y, int rank) {
  double worst = 0;
  for (std::int64_t i = rank * kRows; i < (rank + 1) * kRows; ++i) {
    std::vector<double> sum(kModel, 0);
    for (std::int64_t h = 0; h < kHidden; ++h) {
      double gate = 0, up = 0;
      for (std::int64_t k = 0; k < kModel; ++k) {
        gate += static_cast<double>(value(kX, i, k)) * value(kGate, h, k);
        up += static_cast<double>(value(kX, i, k)) * value(kUp, h, k);
      }
      const double hidden = gate / (1 + std::exp(-gate)) * up;
      for (std::int64_t j = 0; j < kModel; ++j) sum[j] += hidden * value(kDown, j, h);
    }
    for (std::int64_t j = 0; j < kModel; ++j) {
      worst = std::max(worst, std::abs(sum[j] - y[(i - rank * kRows) * kModel + j]));
    }
  }
  return worst;
}

}  // namespace

int main() {
  std::vector<tilelace::Communicator> comms = tilelace::Communicator::threads(kRanks);
  std::vector<double> errors(kRanks, INFINITY);
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      try {
        errors[r] = error_of(mlp(comms[r]), r);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "rank %d: %s\n", r, e.what());
        comms[r].abort();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  const double worst = *std::max_element(errors.begin(), errors.end());
  std::printf("MLP over %d ranks: largest difference to one rank %.2g\n", kRanks, worst);
  return worst < 1e-5 ? 0 : 1;
}
