// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/base/cuda_check.h"
#include "gemm/data.h"

namespace tilelace::test {
namespace {

constexpr unsigned kBlocks = 1056;
constexpr unsigned kThreads = 256;

template <class T>
__global__ void sparse_kernel(T* data, std::int64_t rows, std::int64_t cols, int per_row,
                              std::uint64_t seed, std::int64_t first) {
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x)
    for (int i = static_cast<int>(threadIdx.x); i < per_row; i += static_cast<int>(blockDim.x)) {
      const std::int64_t col = sparse_col(seed, first + r, i, cols);
      data[r * cols + col] = static_cast<T>(sparse_value(seed, first + r, col, cols));
    }
}

template <class T>
__global__ void values_kernel(T* data, std::size_t elements, std::uint64_t seed,
                              std::size_t first) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements; i += step)
    data[i] = static_cast<T>(normal_value(seed, first + i));
}

struct Totals {
  unsigned long long checked, wrong;
  double error, norm;
  long long row, col;
  double got, expected;
  // Counted so that zero means none.
  unsigned long long from_end, last;
};

template <class T>
__global__ void judge_kernel(Judged j, Rule rule, Totals* totals) {
  const std::int64_t m = j.problem.m;
  const std::int64_t n = rule.n;
  const std::int64_t all = rule.samples > 0 ? rule.samples : m * n;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const std::int64_t warps = std::int64_t{gridDim.x} * blockDim.x / kLanes;
  double error = 0;
  double norm = 0;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kLanes; i < all;
       i += warps) {
    const auto at = static_cast<std::int64_t>(
        rule.samples > 0 ? hash(static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(m * n)
                         : static_cast<std::uint64_t>(i));
    const std::int64_t row = at / n;
    const std::int64_t col = at % n;
    const Expected e = expect<T>(j, rule, row, col, lane);
    if (lane != 0) continue;
    const double y = e.value;
    const double got = as_double<T>(j.out, row * (j.stride > 0 ? j.stride : n) + col);
    const double off = got - y;
    error += off * off;
    norm += y * y;
    if (!(std::fabs(off) <= bound_of(rule, e))) {
      atomicAdd(&totals->wrong, 1ULL);
      totals->row = row, totals->col = col, totals->got = got, totals->expected = y;
      atomicMax(&totals->from_end, static_cast<unsigned long long>(m - row));
      atomicMax(&totals->last, static_cast<unsigned long long>(row + 1));
    }
    atomicAdd(&totals->checked, 1ULL);
  }
  if (lane == 0) {
    atomicAdd(&totals->error, error);
    atomicAdd(&totals->norm, norm);
  }
}

template <class T>
__global__ void expected_kernel(Judged j, Rule rule, T* out) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const std::int64_t warps = std::int64_t{gridDim.x} * blockDim.x / kLanes;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kLanes;
       i < j.problem.m * rule.n; i += warps) {
    const Expected e = expect<T>(j, rule, i / rule.n, i % rule.n, lane);
    if (lane == 0) out[i] = static_cast<T>(static_cast<float>(e.value));
  }
}

struct Differing {
  unsigned long long words, from_end, last;
};

__global__ void compare_kernel(const std::uint16_t* x, const std::uint16_t* y, std::size_t words,
                               Differing* d) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words; i += step) {
    if (x[i] == y[i]) continue;
    atomicAdd(&d->words, 1ULL);
    atomicMax(&d->from_end, static_cast<unsigned long long>(words - i));
    atomicMax(&d->last, static_cast<unsigned long long>(i + 1));
  }
}

__global__ void count_kernel(const std::uint8_t* data, std::size_t bytes,
                             unsigned long long* count) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  unsigned long long mine = 0;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < bytes; i += step)
    mine += data[i] != kPoison ? 1 : 0;
  if (mine != 0) atomicAdd(count, mine);
}

template <class Work>
void of_type(DType dtype, const Work& work) {
  if (dtype == DType::bf16)
    work(__nv_bfloat16{});
  else
    work(__half{});
}

/// A device object of this type, zero, read back when the stream is done.
template <class T, class Use>
T read_back(cudaStream_t stream, const Use& use) {
  thread_local T* device = nullptr;
  T host{};
  if (device == nullptr) cuda::check(cudaMalloc(&device, sizeof(T)), "memory for totals");
  cuda::check(cudaMemsetAsync(device, 0, sizeof(T), stream), "totals");
  use(device);
  cuda::check(cudaMemcpyAsync(&host, device, sizeof(T), cudaMemcpyDeviceToHost, stream), "totals");
  cuda::check(cudaStreamSynchronize(stream), "a check on the device");
  return host;
}

}  // namespace

void fill_sparse(void* data, std::int64_t rows, std::int64_t cols, int per_row, DType dtype,
                 std::uint64_t seed, cudaStream_t stream, std::int64_t first_row) {
  const auto bytes = static_cast<std::size_t>(rows * cols) * size_of(dtype);
  cuda::check(cudaMemsetAsync(data, 0, bytes, stream), "clearing");
  of_type(dtype, [&]<class T>(T) {
    sparse_kernel<<<kBlocks, 32, 0, stream>>>(static_cast<T*>(data), rows, cols, per_row, seed,
                                              first_row);
  });
  cuda::check(cudaGetLastError(), "filling");
}

void fill_normal(void* data, std::size_t elements, DType dtype, std::uint64_t seed,
                 cudaStream_t stream, std::size_t first) {
  of_type(dtype, [&]<class T>(T) {
    values_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<T*>(data), elements, seed, first);
  });
  cuda::check(cudaGetLastError(), "filling");
}

void poison(void* data, std::size_t bytes, cudaStream_t stream) {
  cuda::check(cudaMemsetAsync(data, kPoison, bytes, stream), "poisoning");
}

Judgement judge(const Judged& j, std::int64_t samples, bool exact, std::int64_t skip_k,
                cudaStream_t stream) {
  const Rule rule = rule_of(j, samples, exact, skip_k);
  const auto t = read_back<Totals>(stream, [&](Totals* totals) {
    of_type(j.problem.dtype, [&]<class T>(T) {
      judge_kernel<T><<<kBlocks, kThreads, 0, stream>>>(j, rule, totals);
    });
    cuda::check(cudaGetLastError(), "judging");
  });
  Judgement result{t.checked, t.wrong, t.error, t.norm, t.row, t.col, t.got, t.expected};
  if (t.wrong != 0) {
    result.first_row = j.problem.m - static_cast<std::int64_t>(t.from_end);
    result.last_row = static_cast<std::int64_t>(t.last) - 1;
  }
  return result;
}

void make_expected(const Judged& j, void* out, cudaStream_t stream) {
  const Rule rule = rule_of(j, 0, true, 0);
  of_type(j.problem.dtype, [&]<class T>(T) {
    expected_kernel<T><<<kBlocks, kThreads, 0, stream>>>(j, rule, static_cast<T*>(out));
  });
  cuda::check(cudaGetLastError(), "a reference");
}

Difference compare(const void* got, const void* expected, std::size_t words, cudaStream_t stream) {
  const auto d = read_back<Differing>(stream, [&](Differing* found) {
    compare_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<const std::uint16_t*>(got),
                                                     static_cast<const std::uint16_t*>(expected),
                                                     words, found);
    cuda::check(cudaGetLastError(), "comparing");
  });
  if (d.words == 0) return {};
  return {d.words, static_cast<std::int64_t>(words - d.from_end),
          static_cast<std::int64_t>(d.last) - 1};
}

std::uint64_t count_unpoisoned(const void* data, std::size_t bytes, cudaStream_t stream) {
  return read_back<unsigned long long>(stream, [&](unsigned long long* count) {
    count_kernel<<<kBlocks, kThreads, 0, stream>>>(static_cast<const std::uint8_t*>(data), bytes,
                                                   count);
  });
}

}  // namespace tilelace::test
