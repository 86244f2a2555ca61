// SPDX-License-Identifier: Apache-2.0
#include "plan/collectives/norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "core/check.h"
#include "plan/base/hardware.h"
#include "plan/base/problem.h"
#include "plan/gemm/architecture_plans.h"

namespace tilelace::plan {
namespace {

using schedule::ceil_div;
using schedule::kUnitBytes;

std::string_view word_of(NormQuant q) {
  return std::array<std::string_view, 4>{"none", "token", "block", "given"}.at(
      static_cast<std::size_t>(q));
}

/// A tensor of the caller's.
struct Tensor {
  std::string_view what;
  const void* data = nullptr;
  Index bytes = 0;
  bool wanted = false;  ///< may not be null
  Index aligned = kUnitBytes;

  [[nodiscard]] std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(data); }
  [[nodiscard]] bool meets(const Tensor& t) const {
    if (data == nullptr || t.data == nullptr || bytes == 0 || t.bytes == 0) return false;
    return begin() < t.begin() + static_cast<std::uintptr_t>(t.bytes) &&
           t.begin() < begin() + static_cast<std::uintptr_t>(bytes);
  }
};

void check_tensor(const Tensor& t) {
  require(!t.wanted || t.bytes == 0 || t.data != nullptr, "{}: {}: got null, expected {} bytes",
          kNormName, t.what, t.bytes);
  require(t.begin() % static_cast<std::uintptr_t>(t.aligned) == 0,
          "{}: {}: got data {} bytes off alignment, expected alignment to {} bytes", kNormName,
          t.what, t.begin() % static_cast<std::uintptr_t>(t.aligned), t.aligned);
}

/// What is written lies apart, but for results in the place of what has as many rows.
void check_places(const std::array<Tensor, 3>& read, const std::array<Tensor, 4>& written) {
  for (std::size_t i = 0; i < written.size(); ++i) {
    const Tensor& to = written[i];
    for (std::size_t k = 0; k < i; ++k)
      require(!to.meets(written[k]), "{}: {} and {} overlap: pass separate tensors", kNormName,
              written[k].what, to.what);
    for (std::size_t k = 0; k < read.size(); ++k) {
      const bool in_place = i < 2 && k < 2 && to.data == read[k].data;
      require(in_place || !to.meets(read[k]), "{}: {} and {} overlap: pass separate tensors",
              kNormName, read[k].what, to.what);
    }
  }
}

void check_shape(const AllReduceNormArgs& a) {
  const bool known = static_cast<std::size_t>(a.item) < kItems.size();
  require(known && row_of(a.item).floats && row_of(a.item).bytes == 2,
          "{}: item: got {}, expected bf16 or fp16", kNormName,
          known ? row_of(a.item).name : "an unknown one");
  require(a.quant <= NormQuant::given,
          "{}: quant: got the unknown value {}, expected none, token, block or given", kNormName,
          static_cast<int>(a.quant));
  const Index of = a.quant == NormQuant::block ? kNormBlock : 8;
  require(a.n >= of && a.n <= kMostNormCols && a.n % of == 0,
          "{}: n: got {}, expected a multiple of {}, more than 0 and at most {}", kNormName, a.n,
          of, kMostNormCols);
  require(a.m >= 0 && a.m <= kMaxExtent / a.n, "{}: m: got {}, expected 0 to {}", kNormName, a.m,
          kMaxExtent / a.n);
  require(std::isfinite(a.eps) && a.eps >= 0, "{}: eps: got {}, expected 0 or more", kNormName,
          a.eps);
}

/// Beside the sum; 0 is a plain one's.
std::uint64_t meaning_of(const AllReduceNormArgs& a) {
  std::uint64_t word = 1;
  for (const bool flag : {a.residual != nullptr, a.out != nullptr, a.normed != nullptr})
    word = word << 1U | std::uint64_t{flag};
  word = word << 2U | static_cast<std::uint64_t>(a.quant);
  word = word << 16U | static_cast<std::uint64_t>(a.n);
  return word << 32U | std::bit_cast<std::uint32_t>(a.eps);
}

}  // namespace

NormBytes bytes_of(const NormCall& c) {
  const auto item = static_cast<Index>(row_of(c.sum.item).bytes);
  NormBytes b{c.rows * c.cols * item, c.cols * item, 0, 0};
  if (c.quant != NormQuant::none) b.quantised = c.rows * c.cols;
  constexpr Index kScale = sizeof(float);
  switch (c.quant) {
    case NormQuant::none: break;
    case NormQuant::token: b.scales = c.rows * kScale; break;
    case NormQuant::block: b.scales = c.rows * (c.cols / kNormBlock) * kScale; break;
    case NormQuant::given: b.scales = kScale; break;
  }
  return b;
}

NormCall check_norm(const AllReduceNormArgs& a, int rank, int ranks) {
  check_shape(a);
  NormCall c{{}, a.m, a.n, a.quant};
  const auto all = static_cast<std::size_t>(ranks);
  c.sum.collective = Collective::all_reduce;
  c.sum.item = a.item;
  c.sum.rank = rank;
  c.sum.ranks = ranks;
  c.sum.counts = {a.m * a.n};
  const NormBytes bytes = bytes_of(c);
  c.sum.sends = c.sum.takes = std::vector<Parcel>(all, Parcel{0, bytes.rows});
  const bool quantises = a.quant != NormQuant::none;
  require(quantises || (a.quantised == nullptr && a.scales == nullptr),
          "{}: quantised and scales: got memory, expected null for both, since quant is none",
          kNormName);
  const Index scales = a.m == 0 ? 0 : bytes.scales;
  const std::array<Tensor, 3> read{Tensor{"x", a.x, bytes.rows, true},
                                   {"residual", a.residual, bytes.rows, false},
                                   {"weight", a.weight, a.m == 0 ? 0 : bytes.weight, true}};
  const std::array<Tensor, 4> written{Tensor{"out", a.out, bytes.rows, false},
                                      {"normed", a.normed, bytes.rows, !quantises},
                                      {"quantised", a.quantised, bytes.quantised, quantises},
                                      {"scales", a.scales, scales, quantises, 4}};
  for (const Tensor& t : read) check_tensor(t);
  for (const Tensor& t : written) check_tensor(t);
  check_places(read, written);
  c.sum.meaning = meaning_of(a);
  return c;
}

Index row_places(const NormCall& c) {
  return ceil_div(c.cols * static_cast<Index>(row_of(c.sum.item).bytes), kUnitBytes * kLineGroup) *
         kLineGroup;
}

int row_parts(const NormCall& c, const CollectivePlan& p) {
  const Index row = row_places(c);
  return p.chunk >= row ? 1 : static_cast<int>(ceil_div(row, p.chunk));
}
Index part_places(const NormCall& c, const CollectivePlan& p) {
  return std::min(row_places(c), p.chunk);
}

namespace {

/// Rows of each worker, and as many workers as have some; all together.
struct RowSpread {
  Index rows = 1, workers = 1;
};

RowSpread spread_rows(Index rows, Index most_workers, Index most_rows) {
  RowSpread s;
  s.rows = std::clamp<Index>(ceil_div(rows, most_workers), 1, most_rows);
  const Index wanted = ceil_div(rows, s.rows);
  s.workers = std::min(most_workers, wanted <= 1 ? 1 : (wanted + 1) / 2 * 2);
  return s;
}

/// Places of a CTA where so many have a row together.
Index part_of(Index row, Index parts) { return ceil_div(row, parts * kLineGroup) * kLineGroup; }
/// The most CTAs that shorten a row: the fewer units a CTA has the sooner it is done with them. Of
/// a shared device CTAs may stand in pairs.
Index parts_of(Index row, Index rows, Index ctas, bool shared) {
  constexpr Index kFewest = 64;  // units
  for (Index parts = shared ? 2 : 4; parts > 1; parts /= 2)
    if (rows * parts <= ctas && part_of(row, parts) >= kFewest) return parts;
  return 1;
}

/// CTAs, one a multiprocessor; an even number of them may stand in pairs.
Index most_ctas(const CollectiveMachine& m, const CollectiveOptions& o) {
  const Index most = std::min<Index>({m.workers, kMostCtas, o.workers.value_or(kMostCtas)});
  return most <= 1 ? 1 : most / 2 * 2;
}

void check_norm_options(const CollectiveOptions& o) {
  require(o.shots.value_or(1) == 1, "{}: shots: got {}, expected 1", kNormName,
          o.shots.value_or(1));
  require(o.workers.value_or(1) >= 1, "{}: workers: got {}, expected at least 1", kNormName,
          o.workers.value_or(1));
  require(o.chunk.value_or(1) >= 1, "{}: chunk: got {} bytes, expected at least 1", kNormName,
          o.chunk.value_or(1));
}

/// All rows at once.
void spread_lines(const NormCall& c, Index ctas, bool shared, CollectivePlan& p) {
  const Index row = row_places(c);
  const RowSpread whole = spread_rows(c.rows, ctas, std::max<Index>(1, c.rows));
  p.workers = static_cast<int>(whole.workers);
  p.chunk = whole.rows * row;
  const Index parts = parts_of(row, std::max<Index>(1, c.rows), ctas, shared);
  if (parts == 1) return;
  p.chunk = part_of(row, parts);
  p.workers = static_cast<int>(std::max<Index>(1, c.rows)) * row_parts(c, p);
}

/// Some rows a round.
void spread_chunks(const NormCall& c, Index ctas, Index places, const CollectiveOptions& o,
                   CollectivePlan& p) {
  const Index row = row_places(c);
  const Index room = kStagedBytes / (kUnitBytes * schedule::kRing * places * row);  // rows
  const Index asked =
      o.chunk ? ceil_div(*o.chunk, row * kUnitBytes) : std::max<Index>(1, kNormThreads * 2 / row);
  Index most = std::min(ctas, std::max<Index>(1, room));
  if (most > 1) most = most / 2 * 2;
  const RowSpread spread =
      spread_rows(c.rows, most, std::min(asked, std::max<Index>(1, room / most)));
  p.workers = static_cast<int>(spread.workers);
  p.chunk = spread.rows * row;
}

}  // namespace

CollectivePlan plan_norm(const NormCall& c, const CollectiveMachine& machine,
                         const CollectiveOptions& o) {
  check_norm_options(o);
  if (!machine.gpu) return plan_collective(c.sum, machine, o, false);
  const Hardware& h = hardware_of(machine);
  const Index row = row_places(c);
  const Index places = std::max(1, c.sum.ranks - 1);  // of a row, on each rank
  CollectivePlan p;
  spread_lines(c, most_ctas(machine, o), machine.shared, p);
  const bool fit = p.workers * p.chunk * places * kBytesOfLines <= kLineBytes;
  require(fit || !o.lines.value_or(false),
          "{}: {} rows of {} columns do not fit the staging of lines: use chunks (lines=0)",
          kNormName, c.rows, c.cols);
  const double sent = static_cast<double>(bytes_of(c).rows) * (c.sum.ranks - 1);
  const double by_lines = h.call_us + us_at(2 * sent, h.store_gbps);
  const double by_chunks = h.call_us + h.flag_us + us_at(sent, h.store_gbps);
  p.lines = fit && o.lines.value_or(by_lines <= by_chunks);
  p.predicted_us = p.lines ? by_lines : by_chunks;
  if (!p.lines) {
    CollectiveMachine wide = machine;
    const bool both = c.sum.ranks == 2 && row <= kNormUnitsOfTwo * kNormThreads;
    if (both && !machine.shared) wide.workers *= kNormCtas;
    spread_chunks(c, most_ctas(wide, o), places, o, p);
  }
  p.piece = p.workers * p.chunk * machine.most_rounds;
  p.pieces = std::max<Index>(1, ceil_div(c.rows * row, p.piece));
  return p;
}

schedule::Exchange place_norm(const NormCall& c, const CollectivePlan& p, Index piece) {
  schedule::Exchange s;
  s.rank = c.sum.rank;
  s.ranks = c.sum.ranks;
  s.workers = p.workers;
  s.chunk = p.chunk;
  s.ring = p.lines ? 1 : schedule::kRing;
  s.sums = true;
  const Index row = row_parts(c, p) * part_places(c, p);
  const Index units = std::clamp<Index>(c.rows * row - piece * p.piece, 0, p.piece);
  for (int q = 0; q < s.ranks; ++q) s.sends[q] = s.takes[q] = units;
  return s;
}

std::string describe(const NormCall& c) {
  return fmt::format("{} of {}, m {} n {}, quant {}", kNormName, row_of(c.sum.item).name, c.rows,
                     c.cols, word_of(c.quant));
}

}  // namespace tilelace::plan
