// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "backend/cuda/cuda_check.h"
#include "backend/cuda/measure/hash.h"
#include "gemm/data.h"

namespace tilelace::test {
namespace {

using cuda::measure::hash;

constexpr unsigned kBlocks = 1056;
constexpr unsigned kThreads = 256;
constexpr std::uint8_t kPoison = 0xFF;  // NaN in every type
#ifdef TILELACE_EMULATED
constexpr int kWarp = 1;  // threads come one after the other (tests/emulated)
#else
constexpr int kWarp = 32;
#endif

template <class T>
__global__ void sparse_kernel(T* data, std::int64_t rows, std::int64_t cols, int per_row,
                              std::uint64_t seed, std::int64_t first) {
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x)
    for (int i = static_cast<int>(threadIdx.x); i < per_row; i += static_cast<int>(blockDim.x)) {
      const std::uint64_t h = hash(seed + static_cast<std::uint64_t>(first + r) * 4099 + i);
      const std::int64_t col = static_cast<std::int64_t>(h % static_cast<std::uint64_t>(cols));
      // By the place, as two may meet there: whichever comes last writes the same.
      const std::uint64_t sign =
          hash(seed * 31 + static_cast<std::uint64_t>((first + r) * cols + col));
      data[r * cols + col] = static_cast<T>((sign & 1) != 0 ? 1.0F : -1.0F);
    }
}

__device__ double activate64(Activation kind, double x) {
  switch (kind) {
    case Activation::gelu: return 0.5 * x * erfc(-x * 0.70710678118654752440);
    case Activation::gelu_tanh:
      return x / (1 + exp(-2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case Activation::silu: return x / (1 + exp(-x));
    default: return x;
  }
}

struct Totals {
  unsigned long long checked, wrong;
  double error, norm;
  long long row, col;
  double got, expected;
  // Counted so that zero means none.
  unsigned long long from_end, last;
};

struct Rule {
  double u;
  double tiny;             ///< half of what fp16's subnormals are apart
  double extra_roundings;  ///< of the epilogue's own arithmetic, in units of fp32
  bool exact;
  std::int64_t samples, skip_k;
  std::int64_t n;  ///< columns of the result
};

/// What is multiplied with, and added.
struct Factor {
  const void* weight;
  const void* bias;
};

/// One element of one part's product, on all lanes of a warp; adds |a w| to the magnitude.
template <class T>
__device__ double product_of(const Judged& j, const void* weight, int part, std::int64_t row,
                             std::int64_t col, std::int64_t skip_k, double& magnitude) {
  const std::int64_t k = j.problem.k;
  const auto* a = static_cast<const T*>(j.a) + part * j.parts.a + row * k;
  const auto* w = static_cast<const T*>(weight) + part * j.parts.weight + col * k;
  double sum = 0;
  double absolute = 0;
  for (std::int64_t x = skip_k + static_cast<int>(threadIdx.x) % kWarp; x < k; x += kWarp) {
    const double term = static_cast<double>(static_cast<float>(a[x])) *
                        static_cast<double>(static_cast<float>(w[x]));
    sum += term;
    absolute += fabs(term);
  }
  for (int d = kWarp / 2; d > 0; d /= 2) {
    sum += __shfl_xor_sync(~0U, sum, d);
    absolute += __shfl_xor_sync(~0U, absolute, d);
  }
  magnitude += absolute;
  return sum;
}

/// An element in fp64, and how far off it may be before the last rounding.
struct Expected {
  double value, before;
};

/// Of the sum that the activation takes.
template <class T>
__device__ Expected expect_sum(const Judged& j, const Rule& rule, Factor f, std::int64_t row,
                               std::int64_t col) {
  double sum = 0;
  double magnitude = 0;
  double rounded = 0;  // magnitude of what is rounded before it is summed
  for (int part = 0; part < j.parts.count; ++part) {
    const double partial = product_of<T>(j, f.weight, part, row, col, rule.skip_k, magnitude);
    sum += partial;
    rounded += j.parts.roundings * fabs(partial);
  }
  if (j.residual != nullptr) {
    const double r = static_cast<double>(
        static_cast<float>(static_cast<const T*>(j.residual)[row * rule.n + col]));
    sum += r;
    magnitude += fabs(r);
  }
  if (f.bias != nullptr) {
    const double b = static_cast<double>(static_cast<float>(static_cast<const T*>(f.bias)[col]));
    sum += b;
    magnitude += fabs(b);
  }
  const double tiny = rule.tiny * j.parts.count * j.parts.roundings;
  const double partials = rule.u * rounded + tiny;
  return {sum, 0x1p-24 * 16 * magnitude + partials};
}

__device__ Expected expect_activated(Activation activation, const Rule& rule, Expected x) {
  // Slope of the activations is at most 1.13.
  const double slope = activation == Activation::none ? 1 : 1.13;
  const double y = activate64(activation, x.value);
  return {y, slope * x.before + 0x1p-24 * rule.extra_roundings * fabs(y)};
}

/// Of a product, each of whose sides may be off; the product itself is rounded to fp32.
__device__ Expected expect_product(Expected x, Expected y) {
  const double value = x.value * y.value;
  return {value, fabs(y.value) * x.before + fabs(x.value) * y.before + x.before * y.before +
                     0x1p-24 * fabs(value)};
}

template <class T>
__device__ Expected expect(const Judged& j, const Rule& rule, std::int64_t row, std::int64_t col) {
  const Expected x = expect_sum<T>(j, rule, {j.weight, j.bias}, row, col);
  if (!j.problem.gated) return expect_activated(j.activation, rule, x);
  return expect_product(expect_activated(Activation::silu, rule, x),
                        expect_sum<T>(j, rule, {j.up, j.up_bias}, row, col));
}

template <class T>
__global__ void judge_kernel(Judged j, Rule rule, Totals* totals) {
  const std::int64_t m = j.problem.m;
  const std::int64_t n = rule.n;
  const std::int64_t all = rule.samples > 0 ? rule.samples : m * n;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t warps = std::int64_t{gridDim.x} * blockDim.x / kWarp;
  double error = 0;
  double norm = 0;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / kWarp; i < all;
       i += warps) {
    const auto at = static_cast<std::int64_t>(
        rule.samples > 0 ? hash(static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(m * n)
                         : static_cast<std::uint64_t>(i));
    const std::int64_t row = at / n;
    const std::int64_t col = at % n;
    const auto [y, before] = expect<T>(j, rule, row, col);
    if (lane != 0) continue;
    const double got = static_cast<double>(static_cast<float>(static_cast<const T*>(j.out)[at]));
    const double bound = rule.exact ? 0 : rule.u * (fabs(y) + before) + before + rule.tiny;
    const double off = got - y;
    error += off * off;
    norm += y * y;
    if (!(fabs(off) <= bound)) {
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

double Judgement::relative() const { return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error); }

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

void poison(void* data, std::size_t bytes, cudaStream_t stream) {
  cuda::check(cudaMemsetAsync(data, kPoison, bytes, stream), "poisoning");
}

Judgement judge(const Judged& j, std::int64_t samples, bool exact, std::int64_t skip_k,
                cudaStream_t stream) {
  const double extra = j.activation == Activation::none ? 0 : 16;
  const double tiny = j.problem.dtype == DType::fp16 ? 0x1p-25 : 0;
  const Rule rule{
      unit_roundoff(j.problem.dtype), tiny, extra, exact, samples, skip_k, j.problem.out_n()};
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
