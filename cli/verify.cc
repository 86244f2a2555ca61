// SPDX-License-Identifier: Apache-2.0
#include "verify.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "backend/cpu/gemm/error_bound.h"
#include "backend/cpu/gemm/reference.h"
#include "core/half.h"
#include "tilelace/op_table.h"

namespace tilelace::cli {
namespace {

constexpr std::int64_t kSampledRows = 64;
constexpr double kMostIntegerTerms = 1e8;
/// A block of the reference: result elements, and weight elements.
constexpr std::int64_t kBlockResults = std::int64_t{1} << 19;
constexpr std::int64_t kBlockWeights = std::int64_t{1} << 22;
/// Norms of fewer elements than this say nothing that the bound of each element does not: of n
/// elements error and value have norms whose ratio strays by about 0.9 / sqrt(n), and what is
/// allowed, 0.72 u where 0.63 u is usual, is to be six times that.
constexpr std::int64_t kFewElements = 1536;
/// An fp32 result of an activation: the chain of fp32 roundings that evaluates it, which the
/// bound's slope does not hold (at gelu's minimum the slope is zero). This many u is what the
/// epilogue is held to by its own test (CpuEpilogue.ActivationsAreAccurate). In a narrower type the
/// one final rounding outweighs all of them.
constexpr int kActivationRoundings = 12;
/// Relative Frobenius error, in u, of sums that are rounded at each hop (design: 0.0045 in bf16).
constexpr double kHopFrobenius = 1.15;

const char* address(const TensorView& t, std::int64_t row, std::int64_t col) {
  return static_cast<const char*>(t.data) +
         static_cast<std::size_t>(row * t.stride + col) * size_of(t.dtype);
}

/// A block of a matrix, for reading.
TensorView block_of(const TensorView& t, std::int64_t col, std::int64_t cols) {
  return {const_cast<char*>(address(t, 0, col)), t.dtype, t.rows, cols, t.stride};
}

model::Matrix copy_rows(const TensorView& from, const std::vector<std::int64_t>& rows,
                        std::int64_t first_row) {
  auto to = model::make_matrix(from.dtype, static_cast<std::int64_t>(rows.size()), from.cols);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(const_cast<char*>(address(to.view, static_cast<std::int64_t>(i), 0)),
                address(from, rows[i] - first_row, 0),
                static_cast<std::size_t>(from.cols) * size_of(from.dtype));
  }
  return to;
}

/// How often sums are rounded to the dtype on their way: never, each rank's part once, or the
/// running sum at each hop of a ring or between nodes.
enum class Rounding : std::uint8_t { none, parts, hops };

Rounding rounding_of(const Plan& plan, int ranks) {
  if (row_of(plan.op).gathers || plan.partials == kAccumulator || ranks == 1) return Rounding::none;
  return plan.route == RouteKind::mesh ? Rounding::parts : Rounding::hops;
}

cpu::ErrorModel error_model(DType dtype, Activation activation, Rounding rounding,
                            std::int64_t elements) {
  cpu::ErrorModel model;
  model.activation = activation;
  if (dtype == kAccumulator && activation != Activation::none)
    model.roundings = kActivationRoundings;
  if (rounding == Rounding::hops) model.frobenius_factor = kHopFrobenius;
  if (elements < kFewElements) model.frobenius_factor = 1e6;
  return model;
}

}  // namespace

std::vector<std::int64_t> sample_rows(std::int64_t m, int ranks) {
  std::set<std::int64_t> rows;
  if (m <= kSampledRows) {
    for (std::int64_t r = 0; r < m; ++r) rows.insert(r);
    return {rows.begin(), rows.end()};
  }
  for (int r = 0; r < ranks; ++r) {
    const model::Slice shard = row_shard(m, ranks, r);
    if (shard.size() > 0) rows.insert({shard.begin, shard.end - 1});
  }
  std::mt19937_64 random(static_cast<std::uint64_t>(m));
  const auto enough = static_cast<std::size_t>(std::min<std::int64_t>(
      m, std::max<std::int64_t>(kSampledRows, static_cast<std::int64_t>(rows.size()) + 16)));
  while (rows.size() < enough)
    rows.insert(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(m)));
  return {rows.begin(), rows.end()};
}

void Verifier::fail(bool& flag, RankPart& part, const std::string& what) const {
  flag = false;
  if (part.complaint.empty()) part.complaint = fmt::format("rank {}: {}", rank_, what);
}

/// gemm_ar has every row on every rank: each checks its share, a hash shows that the rest is equal.
std::vector<std::int64_t> Verifier::own_rows(const CallTensors& t) const {
  std::vector<std::int64_t> own;
  const auto all = sample_rows(t.m(), work_.ranks);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool held = all[i] >= t.out_rows().begin && all[i] < t.out_rows().end;
    const bool mine = !row_of(job_.gemm.op).shares ||
                      static_cast<int>(i % static_cast<std::size_t>(work_.ranks)) == rank_;
    if (held && mine) own.push_back(all[i]);
  }
  return own;
}

void Verifier::check_integers(const CallTensors& t, RankPart& part) const {
  const int parts = integer_parts(job_.gemm);
  const double terms =
      static_cast<double>(kMostTerms * parts) * static_cast<double>(sum_of(job_.gemm.n));
  std::vector<std::int64_t> rows = own_rows(t);
  const model::Slice held =
      row_of(job_.gemm.op).shares ? row_shard(t.m(), work_.ranks, rank_) : t.out_rows();
  if (terms * static_cast<double>(held.size()) <= kMostIntegerTerms) {
    rows.clear();
    for (std::int64_t r = held.begin; r < held.end; ++r) rows.push_back(r);
  }
  for (const std::int64_t row : rows) {
    std::vector<Term> operand;
    for (int p = 0; p < parts; ++p) {
      const auto more = integer_row(job_.gemm, work_.dtype, row, p);
      operand.insert(operand.end(), more.begin(), more.end());
    }
    for (std::size_t i = 0; i < t.outputs_of(true); ++i) {
      const TensorView& out = t.outputs()[i].view();
      const model::Slice cols = model::row_slice(job_.gemm, i, rank_);
      for (std::int64_t c = 0; c < out.cols; ++c) {
        int sum = 0;
        for (const Term& term : operand)
          sum += term.sign * integer_weight(i, cols.begin + c, term.col);
        const float got =
            load_element(out.data, out.dtype, (row - t.out_rows().begin) * out.stride + c);
        if (got == static_cast<float>(sum)) continue;
        return fail(
            part.exact, part,
            fmt::format("inputs of small integers: output {} row {} column {}: got {}, expected {}",
                        i, row, cols.begin + c, got, sum));
      }
    }
  }
  if (!t.intact())
    fail(part.exact, part, "inputs of small integers: the call wrote outside its output tensors");
  tick_();
}

void Verifier::check_gathered(const CallTensors& t, RankPart& part) const {
  const TensorView& g = t.gathered();
  const auto row = model::make_matrix(g.dtype, 1, g.cols);
  for (std::int64_t r = 0; r < g.rows; ++r) {
    t.random_row(r, row.view);
    if (std::memcmp(row.view.data, address(g, r, 0),
                    static_cast<std::size_t>(g.cols) * size_of(g.dtype)) == 0) {
      continue;
    }
    return fail(part.pass, part, fmt::format("gathered row {} differs from what was sent", r));
  }
  tick_();
}

namespace {

model::Matrix negative(const TensorView& from) {
  auto to = model::make_matrix(from.dtype, from.rows, from.cols);
  for (std::int64_t r = 0; r < from.rows; ++r) {
    for (std::int64_t c = 0; c < from.cols; ++c) {
      store_element(to.view.data, from.dtype, r * to.view.stride + c,
                    -load_element(from.data, from.dtype, r * from.stride + c));
    }
  }
  return to;
}

/// The reference of some weight rows against the operand's rows; `bias` may be absent.
cpu::GemmReference reference_of(const Workload& work, const Job& job, const TensorView& operand,
                                std::size_t index, model::Slice columns, Rounding rounding) {
  const model::LayerSource from{work.config, work.source, job.layer};
  const auto weight =
      model::weight_block(from, job.gemm, index, columns, {0, job.gemm.full_k}, work.dtype);
  cpu::GemmReference reference(operand.rows, columns.size());
  // Where k is split each rank's partial sum is rounded, so that the parts are added one by one;
  // they are cut from the unsharded matrix, not taken from the shards under test.
  const std::int64_t parts = integer_parts(job.gemm);
  const std::int64_t width = job.gemm.full_k / parts;
  const auto negated = rounding == Rounding::hops ? negative(operand) : model::Matrix{};
  for (std::int64_t p = 0; p < parts; ++p) {
    const TensorView a = block_of(operand, p * width, width);
    const TensorView w = block_of(weight.view, p * width, width);
    reference.add(a, w, rounding != Rounding::none);
    // A running sum is at most the sum of all parts, and up to parts - 1 of them are rounded.
    for (std::int64_t hop = 2; rounding == Rounding::hops && hop < parts; ++hop) {
      reference.add(a, w, true);
      reference.add(block_of(negated.view, p * width, width), w, false);
    }
  }
  if (job.gemm.bias) {
    const auto bias = model::bias_block(from, job.gemm, index, columns, work.dtype);
    reference.add_bias(bias.view.data, work.dtype);
  }
  return reference;
}

std::string describe(const Plan& plan, const std::vector<std::int64_t>& rows, std::size_t output,
                     std::int64_t first_col, const cpu::GemmError& e) {
  if (e.row < 0) {
    return fmt::format("{} path: relative error: got {:.3g}, expected at most {:.3g}",
                       name_of(plan.path), e.frobenius, e.allowed_frobenius);
  }
  return fmt::format("{} path: output {} row {} column {}: got {}, expected {}", name_of(plan.path),
                     output, rows[static_cast<std::size_t>(e.row)], first_col + e.col, e.got,
                     e.expected);
}

double squares(const cpu::GemmReference& gate, const cpu::GemmReference* up,
               Activation activation) {
  double sum = 0;
  for (std::size_t i = 0; i < gate.value().size(); ++i) {
    double y = cpu::activate_exact(activation, gate.value()[i]);
    if (up != nullptr) y *= up->value()[i];
    sum += y * y;
  }
  return sum;
}

}  // namespace

Verifier::Sample Verifier::sample(const CallTensors& t) const {
  Sample s{own_rows(t), {}};
  const auto count = static_cast<std::int64_t>(s.rows.size());
  s.operand = model::make_matrix(work_.dtype, count, job_.gemm.full_k);
  TensorView row = s.operand.view;
  row.rows = 1;
  for (std::int64_t i = 0; i < count; ++i) {
    row.data = const_cast<char*>(address(s.operand.view, i, 0));
    t.random_row(s.rows[static_cast<std::size_t>(i)], row);
  }
  return s;
}

void Verifier::check_columns(const Sample& sample, std::size_t output, model::Slice local,
                             const std::vector<Plan>& ways, const Results& got,
                             RankPart& part) const {
  const Activation activation = job_.gemm.activation;
  const std::int64_t first = model::row_slice(job_.gemm, output, rank_).begin + local.begin;
  const model::Slice cols{first, first + local.size()};
  for (const Rounding rounding : {Rounding::none, Rounding::parts, Rounding::hops}) {
    const auto applies = [&](const Plan& p) { return rounding_of(p, work_.ranks) == rounding; };
    if (std::none_of(ways.begin(), ways.end(), applies)) continue;
    const auto gate = reference_of(work_, job_, sample.operand.view, output, cols, rounding);
    std::optional<cpu::GemmReference> up;
    if (activation == Activation::swiglu)
      up = reference_of(work_, job_, sample.operand.view, 1, cols, rounding);
    const cpu::GemmReference* second = up ? &*up : nullptr;
    const auto model = error_model(work_.dtype, activation, rounding, gate.rows() * gate.cols());
    for (std::size_t w = 0; w < ways.size(); ++w) {
      if (!applies(ways[w])) continue;
      const auto e = cpu::check_gemm(block_of(got[w][output].view, local.begin, local.size()),
                                     model, gate, second);
      if (w == 0) {
        const double norm = squares(gate, second, activation);
        part.value_squares += norm;
        part.error_squares += e.frobenius * e.frobenius * (norm > 0 ? norm : 1);
      }
      if (!e.pass) fail(part.pass, part, describe(ways[w], sample.rows, output, first, e));
    }
  }
}

void Verifier::check_fp64(const CallTensors& t, const std::vector<Plan>& ways,
                          const std::function<void(std::size_t)>& run, RankPart& part) const {
  const Sample s = sample(t);
  Results got(ways.size());
  for (std::size_t w = 0; w < ways.size(); ++w) {
    run(w);
    if (!t.intact()) fail(part.pass, part, "the call wrote outside its output tensors");
    for (std::size_t i = 0; i < t.outputs_of(false); ++i)
      got[w].push_back(copy_rows(t.outputs()[i].view(), s.rows, t.out_rows().begin));
  }
  if (s.rows.empty()) return;
  const std::int64_t most =
      std::clamp<std::int64_t>(kBlockWeights / job_.gemm.full_k, 1,
                               kBlockResults / static_cast<std::int64_t>(s.rows.size()));
  for (std::size_t i = 0; i < t.outputs_of(false); ++i) {
    const std::int64_t n = job_.gemm.n[i];
    // Blocks of one width, as far as it goes: the norm of a narrow last one would stray.
    const std::int64_t blocks = (n + most - 1) / most;
    for (std::int64_t b = 0; b < blocks; ++b) {
      check_columns(s, i, {n * b / blocks, n * (b + 1) / blocks}, ways, got, part);
      tick_();
    }
  }
}

std::uint64_t hash_result(const CallTensors& t) {
  const TensorView& out = t.outputs()[0].view();
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (std::int64_t r = 0; r < out.rows; ++r) {
    const char* row = address(out, r, 0);
    const auto bytes = static_cast<std::size_t>(out.cols) * size_of(out.dtype);
    for (std::size_t b = 0; b < bytes; b += sizeof(hash)) {
      std::uint64_t word = 0;
      std::memcpy(&word, row + b, std::min(sizeof(word), bytes - b));
      hash = (hash ^ word) * 0x100000001b3ULL;
      hash ^= hash >> 29;
    }
  }
  return hash;
}

}  // namespace tilelace::cli
