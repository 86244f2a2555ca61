// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "shard_sums.h"

namespace tilelace::gpu_test {
namespace {

constexpr unsigned kThreads = 256;
constexpr std::int64_t kMostBlocks = 1056;
constexpr std::int64_t kPiece = 8;  // elements of 16 bytes

unsigned blocks_of(std::int64_t threads) {
  const std::int64_t blocks = (threads + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < kMostBlocks ? blocks : kMostBlocks);
}

__device__ std::int64_t first_thread() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

__device__ std::int64_t all_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

template <class T>
struct alignas(16) Piece {
  T values[kPiece];
};

template <class T>
__global__ void shard_sum_kernel(const __grid_constant__ ShardSum s) {
  for (std::int64_t i = first_thread(); i < s.elements / kPiece; i += all_threads()) {
    float sums[kPiece] = {};
    for (int t = 0; t < s.count; ++t) {
      const Piece<T> piece = static_cast<const Piece<T>*>(s.terms[t])[i];
      for (int j = 0; j < kPiece; ++j) sums[j] += static_cast<float>(piece.values[j]);
    }
    Piece<T> out;
    for (int j = 0; j < kPiece; ++j) out.values[j] = static_cast<T>(sums[j]);
    static_cast<Piece<T>*>(s.to)[i] = out;
  }
}

template <class T>
__global__ void row_total_kernel(Matrix m, double* to) {
  const auto* data = static_cast<const T*>(m.data);
  for (std::int64_t col = first_thread(); col < m.cols; col += all_threads()) {
    double sum = 0;
    for (std::int64_t row = 0; row < m.rows; ++row)
      sum += static_cast<double>(1 + row % 7) *
             static_cast<double>(static_cast<float>(data[row * m.cols + col]));
    to[col] = sum;
  }
}

template <class T>
__global__ void total_product_kernel(const double* from, Matrix w, double* to) {
  const auto lane = static_cast<std::int64_t>(threadIdx.x) & 31;
  for (std::int64_t row = first_thread() / 32; row < w.rows; row += all_threads() / 32) {
    double sum = 0;
    for (std::int64_t x = lane; x < w.cols; x += 32)
      sum += from[x] * static_cast<double>(
                           static_cast<float>(static_cast<const T*>(w.data)[row * w.cols + x]));
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0U, sum, d);
    if (lane == 0) to[row] = sum;
  }
}

template <class Launch>
cudaError_t of_type(DType dtype, const Launch& launch) {
  if (dtype == DType::bf16)
    launch(__nv_bfloat16{});
  else
    launch(__half{});
  return cudaGetLastError();
}

}  // namespace

cudaError_t enqueue_shard_sum(const ShardSum& sum, cudaStream_t stream) {
  return of_type(sum.dtype, [&]<class T>(T) {
    shard_sum_kernel<T><<<blocks_of(sum.elements / kPiece), kThreads, 0, stream>>>(sum);
  });
}

cudaError_t enqueue_row_total(const Matrix& matrix, double* to, cudaStream_t stream) {
  return of_type(matrix.dtype, [&]<class T>(T) {
    row_total_kernel<T><<<blocks_of(matrix.cols), kThreads, 0, stream>>>(matrix, to);
  });
}

cudaError_t enqueue_total_product(const double* from, const Matrix& weight, double* to,
                                  cudaStream_t stream) {
  return of_type(weight.dtype, [&]<class T>(T) {
    total_product_kernel<T><<<blocks_of(weight.rows * 32), kThreads, 0, stream>>>(from, weight, to);
  });
}

}  // namespace tilelace::gpu_test
