// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/moe_passes.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/backend.h"
#include "backend/cpu/gemm/convert.h"
#include "backend/cpu/gemm/epilogue.h"

namespace tilelace::cpu {
namespace {

using schedule::Index;
using schedule::MoeMap;

/// Columns that are added or scaled at a time.
constexpr Index kChunk = 256;

const void* row_at(const TensorView& t, Index row, Index col = 0) {
  return element(static_cast<const void*>(t.data), t.dtype, row * t.stride + col);
}
void* row_at(TensorView& t, Index row, Index col = 0) {
  return element(t.data, t.dtype, row * t.stride + col);
}

void scale_row(const void* from, void* to, DType dtype, Index cols, float factor) {
  float values[kChunk];
  for (Index first = 0; first < cols; first += kChunk) {
    const Index width = std::min(kChunk, cols - first);
    to_float(element(from, dtype, first), dtype, width, values);
    for (Index i = 0; i < width; ++i) values[i] *= factor;
    from_float(values, dtype, width, element(to, dtype, first));
  }
}

/// One token's sum.
void sum_token(const SlotSumPass& p, Index token) {
  const std::int32_t* rows = p.map + p.shape.row_of() + token * p.shape.top_k;
  const bool adds = p.add && token >= p.first && token < p.first + p.add.rows;
  TensorView out = p.out;
  float sum[kChunk];
  for (Index first = 0; first < out.cols; first += kChunk) {
    const Index width = std::min(kChunk, out.cols - first);
    std::fill_n(sum, width, 0.0F);
    const auto add = [&](const void* term) {
      add_tile(sum, width, term, out.dtype, width, 1, width);
    };
    for (Index slot = 0; slot < p.shape.top_k; ++slot)
      if (rows[slot] >= 0) add(row_at(p.rows, rows[slot], first));
    if (adds) add(row_at(p.add, token - p.first, first));
    from_float(sum, out.dtype, width, row_at(out, token, first));
  }
}

ExpertProduct product_of(const GroupedGemmArgs& a, Index expert) {
  const Index begin = a.begins[expert], rows = a.begins[expert + 1] - begin;
  const Index width = a.weight.rows / a.experts;
  ExpertProduct p;
  p.x = a.x, p.out = a.out, p.weight = a.weight;
  p.x.rows = p.out.rows = rows;
  p.x.data = row_at(p.x, begin);
  p.out.data = row_at(p.out, begin);
  p.weight.rows = width;
  p.weight.data = row_at(p.weight, expert * width);
  if (a.bias) p.bias = row_at(a.bias, expert);
  p.activation = a.activation;
  if (a.scales != nullptr) p.scales = a.scales + (a.sources == nullptr ? begin : 0);
  if (a.sources != nullptr) p.sources = a.sources + begin;
  return p;
}

}  // namespace

CpuMoePasses::CpuMoePasses(int workers, Run run)
    : run_(std::move(run)), workers_(static_cast<std::size_t>(workers)) {}

template <class Body>
void CpuMoePasses::spread(std::int64_t count, const Body& body) {
  const auto workers = static_cast<Index>(workers_.size());
  run_([&](int worker) {
    for (Index i = worker; i < count && worker < workers; i += workers) body(worker, i);
  });
}

void CpuMoePasses::prepare(std::int64_t k) {
  for (auto& worker : workers_) worker.prepare(k);
}

void CpuMoePasses::make_map(const MapPass& p) {
  if (p.type == Item::i64)
    schedule::fill_moe_map(p.shape, static_cast<const std::int64_t*>(p.ids), p.map);
  else
    schedule::fill_moe_map(p.shape, static_cast<const std::int32_t*>(p.ids), p.map);
}

void CpuMoePasses::keep_weights(const MoeMap& shape, const float* weights, std::int32_t* map,
                                void* /*stream*/) {
  if (shape.pairs() == 0) return;
  std::memcpy(map + shape.weights(), weights,
              static_cast<std::size_t>(shape.pairs()) * sizeof(float));
}

void CpuMoePasses::permute(const PermutePass& p) {
  const std::int32_t* sources = p.map + p.shape.source_of();
  const auto bytes = static_cast<std::size_t>(p.x.cols) * size_of(p.x.dtype);
  spread(p.map[p.shape.here], [&](int, Index r) {
    TensorView rows = p.rows;
    const void* from = row_at(p.x, sources[r] / p.shape.top_k);
    if (!p.weighted) {
      std::memcpy(row_at(rows, r), from, bytes);
      return;
    }
    float weight = 0;
    std::memcpy(&weight, p.map + p.shape.weights() + sources[r], sizeof(weight));
    scale_row(from, row_at(rows, r), rows.dtype, rows.cols, weight);
  });
}

void CpuMoePasses::grouped_gemm(const GroupedGemmArgs& a) {
  const Index parts = ExpertGemm::parts(a.out.cols);
  spread(a.experts * parts, [&](int worker, Index i) {
    const ExpertProduct product = product_of(a, i / parts);
    if (product.x.rows > 0) workers_[static_cast<std::size_t>(worker)].run(product, i % parts);
  });
}

void CpuMoePasses::sum_slots(const SlotSumPass& p) {
  spread(p.shape.m, [&](int, Index token) { sum_token(p, token); });
}

}  // namespace tilelace::cpu

namespace tilelace {

std::unique_ptr<MoePasses> make_cpu_moe_passes() {
  return std::make_unique<cpu::CpuMoePasses>(1,
                                             [](const std::function<void(int)>& job) { job(0); });
}

}  // namespace tilelace
