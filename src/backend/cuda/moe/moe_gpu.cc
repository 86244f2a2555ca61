// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/moe/moe_gpu.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>
#include <vector>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/current_device.h"
#include "backend/cuda/base/element_types.h"
#include "backend/cuda/moe/moe_kernels.h"
#include "core/check.h"
#include "plan/base/problem.h"

namespace tilelace::cuda {
namespace {

void require_rows(const char* name, const schedule::MoeMap& map, std::int64_t columns, DType dtype,
                  std::initializer_list<const void*> tensors) {
  require(with_element(dtype, [](auto) { return true; }), "{}: dtype: got {}, expected {} on GPUs",
          name, name_of(dtype), names_of_gpu_dtypes());
  const std::int64_t grain = plan::grain_of(dtype);
  require(columns > 0 && columns % grain == 0, "{}: columns: got {}, expected a multiple of {}",
          name, columns, grain);
  for (const void* p : tensors) {
    require(p != nullptr || map.m == 0, "{}: map or rows: got null, expected GPU memory", name);
    require(reinterpret_cast<std::uintptr_t>(p) % 16 == 0,
            "{}: map or rows: got address {}, expected a multiple of 16 bytes", name, p);
  }
}

RowsParams rows_of(const schedule::MoeMap& map, const std::int32_t* words, std::int64_t columns,
                   DType dtype) {
  RowsParams p{};
  p.row_of = words + map.row_of();
  p.tokens = map.m;
  p.top_k = static_cast<std::int32_t>(map.top_k);
  p.units = static_cast<std::int32_t>(columns / plan::grain_of(dtype));
  return p;
}

}  // namespace

int multiprocessors_here() {
  thread_local std::array<int, 64> known{};
  const int device = current_device();
  int& count = known.at(static_cast<std::size_t>(device));
  if (count == 0) count = multiprocessors_of(device);
  return count;
}

void load_with_shared(const void* kernel, int bytes) {
  thread_local std::vector<std::pair<int, const void*>> loaded;
  const std::pair<int, const void*> key{current_device(), kernel};
  if (std::find(loaded.begin(), loaded.end(), key) != loaded.end()) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "shared memory of a kernel");
  loaded.push_back(key);
}

void make_map(const MakeMap& call, cudaStream_t stream) {
  const schedule::MoeMap& map = call.map;
  require(map.here >= 1 && map.here <= kMostMoeExperts,
          "make_map: experts of this rank: got {}, expected 1 to {}", map.here, kMostMoeExperts);
  constexpr std::int64_t kMostIds = 0x7fffffff;
  require(map.experts <= kMostIds, "make_map: experts: got {}, expected at most {}", map.experts,
          kMostIds);
  require(map.m >= 0 && map.top_k >= 1 && map.pairs() <= schedule::kMaxMapPairs,
          "make_map: got {} tokens x top_k {}, expected a product of at most {}", map.m, map.top_k,
          schedule::kMaxMapPairs);
  require(call.out != nullptr && (call.ids != nullptr || map.pairs() == 0),
          "make_map: ids or map: got null, expected GPU memory");
  check(enqueue_map(call, stream), "launching make_map");
}

void permute_rows(const PermuteRows& call, cudaStream_t stream) {
  require_rows("permute_rows", call.map, call.columns, call.dtype,
               {call.words, call.from, call.to});
  if (call.map.m == 0) return;
  RowsParams p = rows_of(call.map, call.words, call.columns, call.dtype);
  p.from = static_cast<const uint4*>(call.from);
  p.to = static_cast<uint4*>(call.to);
  p.weights = call.weights;
  p.source_of = call.words + call.map.source_of();
  check(enqueue_permute(p, call.dtype, multiprocessors_here(), stream), "launching permute_rows");
}

void sum_slots(const SumSlots& call, cudaStream_t stream) {
  require_rows("sum_slots", call.map, call.columns, call.dtype, {call.words, call.rows, call.out});
  require(reinterpret_cast<std::uintptr_t>(call.add) % 16 == 0,
          "sum_slots: add: got address {}, expected a multiple of 16 bytes", call.add);
  if (call.map.m == 0) return;
  RowsParams p = rows_of(call.map, call.words, call.columns, call.dtype);
  p.from = static_cast<const uint4*>(call.rows);
  p.add = static_cast<const uint4*>(call.add);
  p.add_first = call.add_first;
  p.add_rows = call.add_rows;
  p.to = static_cast<uint4*>(call.out);
  check(enqueue_sum_slots(p, call.dtype, multiprocessors_here(), stream), "launching sum_slots");
}

void load_moe_rows() {
  load_map();
  check(load_rows(), "loading permute_rows and sum_slots");
}

}  // namespace tilelace::cuda
