// SPDX-License-Identifier: Apache-2.0
#include "op/moe_checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "core/check.h"
#include "op/tensors.h"
#include "plan/base/problem.h"
#include "schedule/rows.h"

namespace tilelace::op {
namespace {

using schedule::MoeMap;

/// A matrix without gaps.
void check_dense(std::string_view op, TensorName name, const TensorView& t, DType dtype,
                 std::int64_t rows, std::int64_t cols) {
  check_tensor(op, name, t, dtype, rows, cols);
  require(rows <= 1 || t.stride == cols,
          "{}: {}: got a row stride of {}, expected {}, without gaps", op, name, t.stride, cols);
}

/// With widths of up to 2^40 no product of sizes overflows.
constexpr std::int64_t kMostExperts = std::int64_t{1} << 20;

void check_width(std::string_view op, std::string_view what, std::int64_t width) {
  require(width >= kMoeGrain && width % kMoeGrain == 0 && width <= plan::kMaxExtent,
          "{}: {}: got {}, expected a multiple of {}, more than 0 and at most 2^40", op, what,
          width, kMoeGrain);
}

void check_activation(std::string_view op, ExpertActivation a) {
  require(static_cast<std::size_t>(a) < kExpertActivations.size(),
          "{}: activation: got the unknown value {}, expected none, gelu, gelu_tanh, silu, swiglu "
          "or swiglu_clamped",
          op, static_cast<int>(a));
}

void check_words(std::string_view op, std::string_view what, const void* data, bool wanted,
                 std::size_t alignment) {
  require(data != nullptr || !wanted, "{}: {}: got null data", op, what);
  const auto off = reinterpret_cast<std::uintptr_t>(data) % alignment;
  require(off == 0, "{}: {}: got data {} bytes off, expected {}-byte alignment", op, what, off,
          alignment);
}

/// Two tensors, one of which is written.
void check_apart(std::string_view op, std::string_view a, const TensorView& x, std::string_view b,
                 const TensorView& y) {
  const auto begin = [](const TensorView& t) { return reinterpret_cast<std::uintptr_t>(t.data); };
  const auto end = [&](const TensorView& t) {
    return begin(t) + static_cast<std::uintptr_t>(t.rows * t.cols) * size_of(t.dtype);
  };
  if (begin(x) == end(x) || begin(y) == end(y)) return;
  require(end(x) <= begin(y) || end(y) <= begin(x), "{}: {} and {} overlap: pass separate tensors",
          op, a, b);
}

/// Tokens of every rank, and where this rank's begin.
void spread_tokens(std::string_view op, std::span<const std::int64_t> given, std::int64_t m,
                   int rank, int ranks, MoeCall& call) {
  require(given.empty() || given.size() == static_cast<std::size_t>(ranks),
          "{}: rows: got {} entries, expected none or one per rank ({})", op, given.size(), ranks);
  call.rows.assign(given.begin(), given.end());
  const schedule::RowSplit even{m, ranks, nullptr};
  for (int r = 0; r < ranks && given.empty(); ++r) call.rows.push_back(even.shard(r).size());
  std::int64_t left = m;
  for (const std::int64_t rows : call.rows) {
    require(rows >= 0 && rows <= left,
            "{}: rows: got an entry {}, expected entries of at least 0 that add up to m = {}", op,
            rows, m);
    left -= rows;
  }
  require(left == 0, "{}: rows: got {} tokens in all, expected m = {}", op, m - left, m);
  call.begin = std::accumulate(call.rows.begin(), call.rows.begin() + rank, std::int64_t{0});
}

/// Of both halves.
MoeCall check_sizes(std::string_view op, const MoeLayer& layer, std::int64_t m,
                    std::span<const std::int64_t> rows, int rank, int ranks) {
  check_layer(op, layer);
  MoeCall call{map_of(op, layer, m), {}, 0};
  spread_tokens(op, rows, m, rank, ranks, call);
  return call;
}

}  // namespace

std::int64_t experts_here(const MoeLayer& l) { return l.here == 0 ? l.experts : l.here; }

std::int64_t expert_width(const MoeLayer& l) {
  return row_of(l.activation).gated ? 2 * l.inner : l.inner;
}

void check_layer(std::string_view op, const MoeLayer& l) {
  require(is_known(l.dtype), "{}: dtype: got an unknown value {}, expected {}", op,
          static_cast<int>(l.dtype), names_of_dtypes());
  check_activation(op, l.activation);
  check_width(op, "hidden", l.hidden);
  check_width(op, "inner", l.inner);
  require(l.experts >= 1 && l.experts <= kMostExperts, "{}: experts: got {}, expected 1 to {}", op,
          l.experts, kMostExperts);
  const std::int64_t here = experts_here(l);
  require(l.first >= 0 && here >= 0 && here <= l.experts && l.first <= l.experts - here,
          "{}: experts of this rank: got {} from expert {} on, expected a part of the layer's {}",
          op, here, l.first, l.experts);
  require(l.top_k >= 1 && l.top_k <= kMostExperts, "{}: top_k: got {}, expected 1 to {}", op,
          l.top_k, kMostExperts);
  require(l.m >= 0 && l.m <= schedule::kMaxMapPairs / l.top_k,
          "{}: m: got {} tokens x top_k {}, expected a product from 0 to {}", op, l.m, l.top_k,
          schedule::kMaxMapPairs);
  std::int64_t bytes = 0;
  const auto item = static_cast<std::int64_t>(size_of(l.dtype));
  require(
      !__builtin_mul_overflow(std::max<std::int64_t>(1, l.m * l.top_k), l.hidden * item, &bytes) &&
          bytes <= plan::kMaxExtent,
      "{}: m: the rows of {} tokens x top_k {} exceed 2^40 bytes: give fewer tokens", op, l.m,
      l.top_k);
}

MoeMap map_of(std::string_view op, const MoeLayer& l, std::int64_t m) {
  require(m >= 0 && m <= l.m, "{}: m: got {}, expected 0 to the layer's {}", op, m, l.m);
  return {m, l.top_k, l.experts, l.first, experts_here(l)};
}

MoeCall check_call(const AgMoeArgs& a, int rank, int ranks) {
  const std::string_view op = "ag_moe";
  const MoeLayer& l = a.layer;
  MoeCall call = check_sizes(op, l, a.m, a.rows, rank, ranks);
  const std::int64_t own = l.replicated ? a.m : call.rows[static_cast<std::size_t>(rank)];
  check_dense(op, {"x"}, a.x, l.dtype, own, l.hidden);
  require(a.routing.type == Item::i32 || a.routing.type == Item::i64,
          "{}: ids: got the unknown type {}, expected i32 or i64", op,
          static_cast<int>(a.routing.type));
  check_words(op, "ids", a.routing.ids, own > 0, row_of(a.routing.type).bytes);
  check_words(op, "weights", a.routing.weights, own > 0, sizeof(float));
  check_words(op, "map", a.map, true, 16);
  check_dense(op, {"weight"}, a.weight, l.dtype, call.map.here * expert_width(l), l.hidden);
  if (a.bias) check_dense(op, {"bias"}, a.bias, l.dtype, call.map.here, expert_width(l));
  check_dense(op, {"out"}, a.out, l.dtype, call.map.pairs(), l.inner);
  require(!a.gathered || !l.replicated,
          "{}: gathered: got a tensor, expected none: a replicated layer gathers nothing", op);
  if (a.gathered) check_dense(op, {"gathered"}, a.gathered, l.dtype, a.m, l.hidden);
  check_apart(op, "x", a.x, "out", a.out);
  check_apart(op, "out", a.out, "gathered", a.gathered);
  return call;
}

MoeCall check_call(std::string_view op, const MoeReduceArgs& a, bool scatters, int rank,
                   int ranks) {
  const MoeLayer& l = a.layer;
  require(scatters || a.rows.empty(),
          "{}: rows: got {} entries, expected none: this op returns all rows", op, a.rows.size());
  MoeCall call = check_sizes(op, l, a.m, a.rows, rank, ranks);
  const std::int64_t own = scatters ? call.rows[static_cast<std::size_t>(rank)] : a.m;
  check_dense(op, {"x"}, a.x, l.dtype, call.map.pairs(), l.inner);
  check_words(op, "map", a.map, true, 16);
  check_dense(op, {"weight"}, a.weight, l.dtype, call.map.here * l.hidden, l.inner);
  if (a.bias) check_dense(op, {"bias"}, a.bias, l.dtype, call.map.here, l.hidden);
  if (a.add) {
    const std::int64_t rows = scatters && a.add.rows != a.m ? own : a.m;
    check_dense(op, {"add"}, a.add, l.dtype, rows, l.hidden);
  }
  check_dense(op, {"out"}, a.out, l.dtype, own, l.hidden);
  check_apart(op, "x", a.x, "out", a.out);
  return call;
}

void check_grouped(const GroupedGemmArgs& a) {
  const std::string_view op = "grouped_gemm";
  const DType dtype = a.x.dtype;
  check_activation(op, a.activation);
  require(a.experts >= 1 && a.experts <= kMostExperts, "{}: experts: got {}, expected 1 to {}", op,
          a.experts, kMostExperts);
  check_width(op, "k", a.x.cols);
  check_width(op, "n", a.out.cols);
  const std::int64_t width = row_of(a.activation).gated ? 2 * a.out.cols : a.out.cols;
  check_dense(op, {"x"}, a.x, dtype, a.x.rows, a.x.cols);
  check_dense(op, {"weight"}, a.weight, dtype, a.experts * width, a.x.cols);
  if (a.bias) check_dense(op, {"bias"}, a.bias, dtype, a.experts, width);
  check_dense(op, {"out"}, a.out, dtype, a.x.rows, a.out.cols);
  check_words(op, "begins", a.begins, true, sizeof(std::int32_t));
  check_words(op, "scales", a.scales, false, sizeof(float));
  check_words(op, "sources", a.sources, false, sizeof(std::int32_t));
  check_apart(op, "x", a.x, "out", a.out);
  if (a.device != Device::cpu) return;
  std::int64_t before = 0;
  for (std::int64_t e = 0; e <= a.experts; ++e) {
    const std::int64_t begin = a.begins[e];
    require(begin >= before && begin <= a.x.rows && (e > 0 || begin == 0),
            "{}: begins: got {} at index {}, expected ascending numbers from 0 to at most {}", op,
            begin, e, a.x.rows);
    before = begin;
  }
  for (std::int64_t r = 0; r < before && a.sources != nullptr; ++r)
    require(a.sources[r] >= 0, "{}: sources: got {} for row {}, expected 0 or more", op,
            a.sources[r], r);
}

void check_map(std::string_view op, const MoeMap& s, const std::int32_t* map) {
  const auto good = [&] {
    const std::int32_t rows = map[s.here];
    if (map[0] != 0 || rows < 0 || rows > s.pairs()) return false;
    for (std::int64_t e = 0; e < s.here; ++e)
      if (map[e] > map[e + 1]) return false;
    for (std::int64_t i = 0; i < s.pairs(); ++i) {
      const std::int32_t row = map[s.row_of() + i], source = map[s.source_of() + i];
      if (row < -1 || row >= rows || source < -1 || source >= s.pairs()) return false;
      if ((i < rows) != (source >= 0)) return false;
    }
    return true;
  };
  require(good(),
          "{}: map: got one that ag_moe did not make for this layer and m: pass the map of ag_moe",
          op);
}

void check_ids(std::string_view op, const MoeMap& s, const std::int32_t* map) {
  const std::int32_t wrong = map[s.wrong()];
  if (wrong == 0) return;
  raise(ErrorKind::usage,
        "{}: ids: got an id that names no expert, for token {}, slot {}, expected -1 to {}", op,
        (wrong - 1) / s.top_k, (wrong - 1) % s.top_k, s.experts - 1);
}

std::string words_of(const MoeLayer& l, std::int64_t m) {
  return fmt::format("{}, m {}, hidden {}, experts {}, top_k {}, {}{}{}", name_of(l.dtype), m,
                     l.hidden, l.experts, l.top_k, row_of(l.activation).name,
                     l.replicated ? ", replicated" : "",
                     l.weight_on_input ? ", weight_on_input" : "");
}

}  // namespace tilelace::op
