// SPDX-License-Identifier: Apache-2.0
#include "plan/base/problem.h"

#include <fmt/format.h>

#include <numeric>
#include <optional>

#include "core/check.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace {

std::int64_t Problem::total_n() const {
  return std::accumulate(n.begin(), n.end(), std::int64_t{0});
}

std::int64_t Problem::out_n(std::size_t i) const { return n.at(i); }

std::size_t Problem::outputs() const { return activation == Activation::swiglu ? 1 : n.size(); }

namespace {

class Hash {
 public:
  void add(std::uint64_t word) {
    value_ = (value_ ^ word) * 0x9e3779b97f4a7c15U;
    value_ ^= value_ >> 32U;
  }
  template <class T>
  void add(const std::optional<T>& word) {
    add(word ? static_cast<std::uint64_t>(*word) + 1 : 0);
  }
  void add(const std::vector<std::int64_t>& words) {
    add(words.size());
    for (const auto w : words) add(static_cast<std::uint64_t>(w));
  }
  [[nodiscard]] std::size_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace

std::size_t hash_value(const Problem& p) {
  Hash h;
  h.add(static_cast<std::uint64_t>(p.op) | static_cast<std::uint64_t>(p.dtype) << 8U |
        static_cast<std::uint64_t>(p.activation) << 16U |
        static_cast<std::uint64_t>(p.bias) << 24U |
        static_cast<std::uint64_t>(p.return_gathered) << 25U |
        static_cast<std::uint64_t>(p.residual) << 26U | static_cast<std::uint64_t>(p.ranks) << 32U);
  h.add(static_cast<std::uint64_t>(p.m));
  h.add(p.n);
  h.add(static_cast<std::uint64_t>(p.k));
  h.add(p.rows);
  return h.value();
}

std::size_t hash_value(const PlanOptions& o) {
  Hash h;
  h.add(o.path);
  h.add(o.route);
  h.add(o.transport);
  h.add(o.tile_m);
  h.add(o.tile_n);
  h.add(o.blocks);
  h.add(o.chunk_rows);
  h.add(o.straddle);
  h.add(o.partials);
  h.add(o.local_ranks);
  return h.value();
}

namespace plan {
namespace {

/// Bytes of staging for every element and rank, at most: what ranks send each other in padded rows,
/// and flags of tiles of one element.
constexpr std::int64_t kMostStaged = 4 * 512;

void check_extents(const Problem& p) {
  const auto op = name_of(p.op);
  require(p.m >= 0 && p.m <= kMaxExtent, "{}: m: got {}, expected 0 to {}", op, p.m, kMaxExtent);
  require(p.k >= 1 && p.k <= kMaxExtent, "{}: k: got {}, expected 1 to {}", op, p.k, kMaxExtent);
  require(!p.n.empty(), "{}: weights: got none, expected at least one", op);
  require(p.n.size() <= 16, "{}: weights: got {}, expected at most 16", op, p.n.size());
  for (const auto n : p.n) {
    require(n >= 1 && n <= kMaxExtent, "{}: n: got {}, expected 1 to {}", op, n, kMaxExtent);
  }
  const auto overflows = [&](std::int64_t columns) {
    std::int64_t bytes = 0;
    return __builtin_mul_overflow(p.m, columns, &bytes) ||
           __builtin_mul_overflow(bytes, kMostStaged * p.ranks, &bytes);
  };
  require(!overflows(p.k) && !overflows(p.total_n()),
          "{}: m {} x n {} x k {}: the staging would have more bytes than 64 bits can count", op,
          p.m, p.total_n(), p.k);
}

void check_rows(const Problem& p) {
  if (p.rows.empty()) return;
  const auto op = name_of(p.op);
  require(row_of(p.op).shards(), "{}: rows: got a list, expected none: the op splits m itself", op);
  require(static_cast<int>(p.rows.size()) == p.ranks,
          "{}: rows: got {} entries, expected one per rank ({})", op, p.rows.size(), p.ranks);
  std::int64_t left = p.m;
  for (const auto r : p.rows) {
    require(r >= 0 && r <= left,
            "{}: rows: got an entry {}, expected entries of at least 0 that add up to m {}", op, r,
            p.m);
    left -= r;
  }
  require(left == 0, "{}: rows: got a sum of {}, expected m {}", op, p.m - left, p.m);
}

}  // namespace

void check_problem(const Problem& p) {
  const auto op = name_of(p.op);
  require(p.ranks >= 1 && p.ranks <= kMaxRanks, "{}: ranks: got {}, expected 1 to {}", op, p.ranks,
          kMaxRanks);
  require(static_cast<std::size_t>(p.op) < op_table().size(),
          "op: got the unknown value {}, expected {}", static_cast<int>(p.op), names_of_ops());
  if (!is_known(p.dtype))
    raise(ErrorKind::usage, "{}: dtype: got the unknown value {}, expected {}", op,
          static_cast<int>(p.dtype), names_of_dtypes());
  check_extents(p);
  check_rows(p);
  require(
      p.activation <= Activation::swiglu,
      "{}: activation: got the unknown value {}, expected none, gelu, gelu_tanh, silu or swiglu",
      op, static_cast<int>(p.activation));
  const OpRow& row = row_of(p.op);
  if (p.residual) {
    require(row.operand(Role::residual) != nullptr,
            "{}: residual: got one, expected none: only gemm_rs and gemm_ar take one", op);
    require(p.activation == Activation::none,
            "{}: activation with a residual: got {}, expected none", op, name_of(p.activation));
  }
  if (!row.multiplies()) {
    require(p.n.size() == 1 && p.n[0] == p.k, "{}: n: got {}, expected k {}: the op has no weights",
            op, fmt::join(p.n, "+"), p.k);
    require(!p.bias, "{}: bias: got one, expected none: the op has no product", op);
  }
  if (!row.many()) {
    require(p.n.size() == 1, "{}: weights: got {}, expected exactly one", op, p.n.size());
    require(p.activation != Activation::swiglu,
            "{}: activation: got swiglu, which needs two weights, expected none, gelu, gelu_tanh "
            "or silu",
            op);
  }
  require(!p.return_gathered || row.operand(Role::gathered) != nullptr,
          "{}: gathered: got one, expected none: only ag_gemm gathers", op);
  if (p.activation == Activation::swiglu) {
    require(p.n.size() == 2 && p.n[0] == p.n[1],
            "{}: swiglu: got weights of n {}, expected two of equal n (gate, up)", op,
            fmt::join(p.n, "+"));
  }
}

void check_options(Op op, const PlanOptions& o) {
  const auto known = [&](const char* what, const auto& asked, auto last) {
    if (asked.value_or(last) <= last) return;
    std::string names;
    for (int i = 0; i <= static_cast<int>(last); ++i)
      names += fmt::format("{}{}",
                           i == 0                        ? ""
                           : i == static_cast<int>(last) ? " or "
                                                         : ", ",
                           name_of(static_cast<decltype(last)>(i)));
    raise(ErrorKind::usage, "{}: {}: got the unknown value {}, expected {}", name_of(op), what,
          static_cast<int>(*asked), names);
  };
  known("path", o.path, Path::unfused);
  known("route", o.route, RouteKind::two_level);
  known("transport", o.transport, transport_table().back().transport);
  known("partials", o.partials, std::rbegin(kDTypes)->type);
}

}  // namespace plan
}  // namespace tilelace
