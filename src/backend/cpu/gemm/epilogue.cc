// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/gemm/epilogue.h"

#include <algorithm>
#include <bit>

#include "backend/cpu/gemm/convert.h"
#include "backend/cpu/gemm/simd.h"
#include "tilelace/moe.h"

namespace tilelace::cpu {
namespace {

// Columns handled at once. Always whole vectors: an element's result does not depend on where it
// lies in a row.
constexpr std::int64_t kChunk = 256;

struct alignas(64) Chunk {
  float values[kChunk];
};

// exp for any x: Cephes' polynomial, about 1 ulp, from zero to infinity. 2^n is applied in two
// halves, since n itself may leave the exponent's range.
TILELACE_INLINE_BODY inline float exp_float(float x) {
  x = x < -104.0F ? -104.0F : x;
  x = x > 104.0F ? 104.0F : x;
  constexpr float kToInteger = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const float shifted = x * 1.44269504F + kToInteger;
  const float n = shifted - kToInteger;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float e = (p * (r * r) + r) + 1.0F;
  const int whole = static_cast<int>(n);
  const int half = whole >> 1;
  const float scale1 = std::bit_cast<float>((half + 127) << 23);
  const float scale2 = std::bit_cast<float>((whole - half + 127) << 23);
  return e * scale1 * scale2;
}

// x / (1 + exp(-v)), with an exponential that cannot overflow: exact to a few ulp in both tails.
TILELACE_INLINE_BODY inline float times_sigmoid(float x, float v) {
  const float e = exp_float(v < 0.0F ? v : -v);
  return x * (v < 0.0F ? e : 1.0F) / (1.0F + e);
}

TILELACE_INLINE_BODY inline float silu(float x) { return times_sigmoid(x, x); }

// 0.5 x (1 + tanh u) = x / (1 + exp(-2 u)): no cancellation for negative x.
TILELACE_INLINE_BODY inline float gelu_tanh(float x) {
  return times_sigmoid(x, 1.59576912F * (x + 0.044715F * x * x * x));
}

// x Phi(x) through erfc, so that the negative tail keeps its relative accuracy. erfc: Chebyshev fit
// of Numerical Recipes (relative error 1.2e-7 everywhere).
TILELACE_INLINE_BODY inline float gelu(float x) {
  const float magnitude = x < 0.0F ? -x : x;
  const float ax = magnitude > 30.0F ? 30.0F : magnitude;  // beyond, the tail is zero in fp32
  const float z = ax * 0.707106781F;
  const float t = 1.0F / (1.0F + 0.5F * z);
  float p = 0.17087277F;
  p = p * t - 0.82215223F;
  p = p * t + 1.48851587F;
  p = p * t - 1.13520398F;
  p = p * t + 0.27886807F;
  p = p * t - 0.18628806F;
  p = p * t + 0.09678418F;
  p = p * t + 0.37409196F;
  p = p * t + 1.00002368F;
  p = p * t - 1.26551223F;
  const float tail = 0.5F * ax * t * exp_float(p - 0.5F * ax * ax);
  return (x < 0.0F ? 0.0F : x) - tail;
}

template <class Function>
void map_chunk(Chunk& chunk, const Function& f) {
  float* v = chunk.values;
  run_simd([=]() TILELACE_INLINE_BODY {
    for (std::int64_t i = 0; i < kChunk; ++i) v[i] = f(v[i]);
  });
}

void activate(Activation activation, Chunk& chunk) {
  switch (activation) {
    case Activation::gelu:
      return map_chunk(chunk, [](float x) TILELACE_INLINE_BODY { return gelu(x); });
    case Activation::gelu_tanh:
      return map_chunk(chunk, [](float x) TILELACE_INLINE_BODY { return gelu_tanh(x); });
    case Activation::silu:
    case Activation::swiglu:
      return map_chunk(chunk, [](float x) TILELACE_INLINE_BODY { return silu(x); });
    case Activation::none: return;
  }
}

void add_row(float* __restrict acc, const float* __restrict term, std::int64_t n) {
  run_simd([=]() TILELACE_INLINE_BODY {
    for (std::int64_t i = 0; i < n; ++i) acc[i] += term[i];
  });
}

void multiply_chunk(Chunk& chunk, const Chunk& factor) {
  float* __restrict v = chunk.values;
  const float* __restrict f = factor.values;
  run_simd([=]() TILELACE_INLINE_BODY {
    for (std::int64_t i = 0; i < kChunk; ++i) v[i] *= f[i];
  });
}

// gpt-oss's swiglu: the gate from above and up from both sides are bounded. NaNs stay.
void clamped_swiglu(Chunk& gate, const Chunk& up) {
  float* __restrict v = gate.values;
  const float* __restrict u = up.values;
  run_simd([=]() TILELACE_INLINE_BODY {
    for (std::int64_t i = 0; i < kChunk; ++i) {
      const float g = v[i] > kSwigluLimit ? kSwigluLimit : v[i];
      float x = u[i] > kSwigluLimit ? kSwigluLimit : u[i];
      x = x < -kSwigluLimit ? -kSwigluLimit : x;
      v[i] = times_sigmoid((x + 1.0F) * g, kSwigluAlpha * g);
    }
  });
}

void scale_chunk(Chunk& chunk, float factor) {
  float* v = chunk.values;
  run_simd([=]() TILELACE_INLINE_BODY {
    for (std::int64_t i = 0; i < kChunk; ++i) v[i] *= factor;
  });
}

// chunk = acc + bias in the first `cols` places; what lies beyond stays finite from before.
void load_biased(Chunk& chunk, const float* acc, const float* bias, std::int64_t cols) {
  float* __restrict v = chunk.values;
  if (bias == nullptr) {
    std::copy_n(acc, cols, v);
    return;
  }
  run_simd([=]() TILELACE_INLINE_BODY {
    for (std::int64_t i = 0; i < cols; ++i) v[i] = acc[i] + bias[i];
  });
}

// The bias of columns [first, first + cols) in fp32; null when there is none.
const float* bias_chunk(const void* bias, DType dtype, std::int64_t first, std::int64_t cols,
                        Chunk& buffer) {
  if (bias == nullptr) return nullptr;
  to_float(element(bias, dtype, first), dtype, cols, buffer.values);
  return buffer.values;
}

}  // namespace

void store_tile(const Epilogue& epilogue, const float* acc, const float* acc2, std::int64_t ldacc,
                std::int64_t rows, std::int64_t cols, void* out, std::int64_t ldout) {
  const Activation activation = epilogue.activation;
  const DType dtype = epilogue.dtype;
  if (activation == Activation::none && epilogue.bias == nullptr && epilogue.residual == nullptr &&
      epilogue.row_scales == nullptr)
    return round_tile(acc, ldacc, rows, cols, out, dtype, ldout);
  const bool gated = activation == Activation::swiglu;
  Chunk value{}, up{}, bias_buffer, bias2_buffer, residual;
  for (std::int64_t first = 0; first < cols; first += kChunk) {
    const std::int64_t width = std::min(kChunk, cols - first);
    const float* bias = bias_chunk(epilogue.bias, dtype, first, width, bias_buffer);
    const float* bias2 =
        gated ? bias_chunk(epilogue.bias2, dtype, first, width, bias2_buffer) : nullptr;
    for (std::int64_t r = 0; r < rows; ++r) {
      load_biased(value, acc + r * ldacc + first, bias, width);
      if (gated) load_biased(up, acc2 + r * ldacc + first, bias2, width);
      if (epilogue.clamped) {
        clamped_swiglu(value, up);
      } else {
        activate(activation, value);
        if (gated) multiply_chunk(value, up);
      }
      if (epilogue.row_scales != nullptr) scale_chunk(value, epilogue.row_scales[r]);
      if (epilogue.residual != nullptr) {
        to_float(element(epilogue.residual, dtype, r * epilogue.ldresidual + first), dtype, width,
                 residual.values);
        add_row(value.values, residual.values, width);
      }
      from_float(value.values, dtype, width, element(out, dtype, r * ldout + first));
    }
  }
}

void add_tile(float* acc, std::int64_t ldacc, const void* partial, DType dtype,
              std::int64_t ldpartial, std::int64_t rows, std::int64_t cols) {
  Chunk term;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t first = 0; first < cols; first += kChunk) {
      const std::int64_t width = std::min(kChunk, cols - first);
      to_float(element(partial, dtype, r * ldpartial + first), dtype, width, term.values);
      add_row(acc + r * ldacc + first, term.values, width);
    }
  }
}

void load_tile(float* acc, std::int64_t ldacc, const void* partial, DType dtype,
               std::int64_t ldpartial, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t r = 0; r < rows; ++r)
    to_float(element(partial, dtype, r * ldpartial), dtype, cols, acc + r * ldacc);
}

void round_tile(const float* acc, std::int64_t ldacc, std::int64_t rows, std::int64_t cols,
                void* out, DType dtype, std::int64_t ldout) {
  for (std::int64_t r = 0; r < rows; ++r)
    from_float(acc + r * ldacc, dtype, cols, element(out, dtype, r * ldout));
}

}  // namespace tilelace::cpu
