// SPDX-License-Identifier: Apache-2.0
#include "runner.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "core/half.h"
#include "plan/ag_gemm.h"
#include "shape.h"

namespace tilelace::conformance {
namespace {

/// Non-zeros a row and rank, so that all partial and total sums, bias and residual included, are
/// exact.
int nonzeros(const Problem& p) {
  return p.op == Op::ag_gemm ? 31 : std::max(1, std::min(32, 256 / p.ranks) - 1);
}

/// One case on one rank: its operands and the knowledge to judge its results.
class RankCase {
 public:
  RankCase(const Case& c, int rank, const RunOptions& options)
      : case_(c), rank_(rank), options_(options), shape_(c.problem, rank) {
    const Problem& p = c.problem;
    for (std::size_t i = 0; i < p.n.size(); ++i) {
      weights_.emplace_back(p.dtype, p.n[i], p.k, c.pad, c.offset);
      fill(weights_.back(), weight_source(i, rank), 0);
      reference_weights_.push_back(dense_parts(
          p.n[i], p.k, 0, [&](int part) { return weight_source(i, shape_.sums ? part : rank); }));
      weight_views_.push_back(weights_.back().view());
      if (!p.bias) continue;
      bias_.emplace_back(p.dtype, 1, p.n[i], c.pad, c.offset);
      fill(bias_.back(), source(100 + i, p.n[i]), 0);
      bias_views_.push_back(bias_.back().view());
    }
  }

  [[nodiscard]] Preparation preparation() const {
    return {case_.problem, weight_views_, case_.options};
  }

  /// Makes the n-th call; returns what is wrong with this rank's result.
  std::string call(Communicator& c, const CallShape& shape, int n) {
    problem_ = problem_of(case_, shape);
    shape_ = test::OpShape(problem_, rank_);
    number_ = n;
    make_operands();
    if (problem_.op == Op::ag_gemm) {
      AgGemmArgs args{problem_.m,          input_.view(), weight_views_,    bias_views_,
                      problem_.activation, out_views_,    gathered_.view(), problem_.rows};
      if (!problem_.return_gathered) args.gathered = {};
      ag_gemm(c, args, case_.options);
    } else {
      GemmReduceArgs args{problem_.m,          input_.view(),
                          weight_views_[0],    problem_.bias ? bias_views_[0] : TensorView{},
                          problem_.activation, out_views_[0],
                          problem_.rows};
      if (problem_.residual) args.residual = residual_.view();
      problem_.op == Op::gemm_rs ? gemm_rs(c, args, case_.options)
                                 : gemm_ar(c, args, case_.options);
    }
    if (options_.observe) options_.observe(rank_, n, out_);
    return judge();
  }

 private:
  [[nodiscard]] Source source(std::uint64_t what, std::int64_t per_row) const {
    return {options_.fill, test::hash(case_.seed + options_.salt * 977 + what * 0x9e3779b9),
            static_cast<int>(per_row)};
  }
  /// Weight i: ag_gemm ranks hold different columns of the product, the others different terms.
  [[nodiscard]] Source weight_source(std::size_t i, int rank) const {
    return source(200 + i * 64 + static_cast<std::uint64_t>(rank), case_.problem.k * 2);
  }
  /// The operand: ag_gemm all rows (rank 0 stands for all), else this rank's terms.
  [[nodiscard]] Source input_source(int rank) const {
    const int owner = shape_.sums ? rank : 0;
    return source(10'000 + static_cast<std::uint64_t>(number_ * 64 + owner), nonzeros(problem_));
  }
  /// Rows like the result's, the same of gemm_ar on every rank.
  [[nodiscard]] Source residual_source() const {
    return source(300'000 + static_cast<std::uint64_t>(number_), problem_.n[0]);
  }
  /// What the reference multiplies: each part's rows [first, first + rows), packed.
  template <class SourceOf>
  [[nodiscard]] std::vector<std::byte> dense_parts(std::int64_t rows, std::int64_t cols,
                                                   std::int64_t first,
                                                   const SourceOf& source_of) const {
    std::vector<std::byte> all;
    for (int part = 0; part < shape_.parts; ++part) pack(rows, cols, first, source_of(part), all);
    return all;
  }
  /// Adds a source's rows without anything between them.
  void pack(std::int64_t rows, std::int64_t cols, std::int64_t first, const Source& source,
            std::vector<std::byte>& to) const {
    const std::size_t row_bytes = static_cast<std::size_t>(cols) * size_of(case_.problem.dtype);
    GuardedTensor one(case_.problem.dtype, rows, cols, 0, 0);
    fill(one, source, first);
    for (std::int64_t r = 0; r < rows; ++r)
      to.insert(to.end(), one.bytes(r, 0), one.bytes(r, 0) + row_bytes);
  }

  void make_operands() {
    input_ = {problem_.dtype, shape_.inputs, problem_.k, case_.pad, case_.offset};
    fill(input_, input_source(rank_), shape_.input_row);
    if (rank_ == options_.drop_rank) {
      for (std::int64_t r = 0; r < input_.view().rows; ++r) {
        for (std::int64_t k = 0; k < problem_.k; ++k) input_.set(r, k, 0);
      }
    }
    out_.clear();
    out_views_.clear();
    reference_ = dense_parts(shape_.results, problem_.k, shape_.result_row,
                             [&](int part) { return input_source(part); });
    for (std::size_t i = 0; i < problem_.outputs(); ++i) {
      out_.emplace_back(problem_.dtype, shape_.results, problem_.n[i], case_.pad, case_.offset);
      out_views_.push_back(out_.back().view());
    }
    gathered_ = {problem_.dtype, problem_.m, problem_.k, case_.pad, case_.offset};
    if (!problem_.residual) return;
    residual_ = {problem_.dtype, shape_.results, problem_.n[0], case_.pad, case_.offset};
    fill(residual_, residual_source(), shape_.result_row);
  }

  std::string judge() const {
    for (const auto& t : out_) {
      if (!t.guards_intact()) return "wrote outside the output";
    }
    if (!input_.guards_intact()) return "wrote outside the input";
    if (problem_.residual && !residual_.guards_intact()) return "wrote outside the residual";
    if (problem_.op == Op::ag_gemm && problem_.return_gathered) {
      const std::string wrong = judge_gathered();
      if (!wrong.empty()) return wrong;
    }
    for (std::size_t i = 0; i < out_.size(); ++i) {
      const std::string wrong = judge_out(i);
      if (!wrong.empty()) return wrong;
    }
    return {};
  }

  std::string judge_gathered() const {
    if (!gathered_.guards_intact()) return "wrote outside the gathered operand";
    const std::size_t row_bytes = static_cast<std::size_t>(problem_.k) * size_of(problem_.dtype);
    for (std::int64_t r = 0; r < problem_.m; ++r) {
      const std::byte* const want = reference_.data() + static_cast<std::size_t>(r) * row_bytes;
      const std::byte* const got = const_cast<GuardedTensor&>(gathered_).bytes(r, 0);
      if (std::memcmp(got, want, row_bytes) == 0) continue;
      const auto at = std::mismatch(want, want + row_bytes, got).first - want;
      const auto k = at / static_cast<std::ptrdiff_t>(size_of(problem_.dtype));
      return fmt::format("gathered [{}, {}]: got {}, expected {}", r, k, gathered_.get(r, k),
                         load_element(want, problem_.dtype, k));
    }
    return {};
  }

  /// How often a rank's part of a sum is rounded on its way.
  [[nodiscard]] int roundings() const {
    return shape_.sums && case_.options.partials.value_or(problem_.dtype) != DType::fp32 ? 1 : 0;
  }

  /// No product of the library takes part.
  std::string judge_out(std::size_t i) const {
    const Problem& p = problem_;
    const TensorView& out = out_[i].view();
    if (out.rows == 0) return {};
    const auto bias = [&](std::size_t of) { return p.bias ? bias_views_[of].data : nullptr; };
    test::Judged judged{reference_.data(),
                        reference_weights_[i].data(),
                        bias(i),
                        out.data,
                        plan::product_of(p, i, out.rows),
                        p.activation,
                        {shape_.parts, out.rows * p.k, p.n[i] * p.k, roundings()}};
    judged.stride = out.stride;
    std::vector<std::byte> residual;
    if (p.residual) {
      pack(out.rows, out.cols, shape_.result_row, residual_source(), residual);
      judged.residual = residual.data();
    }
    if (judged.problem.gated) {
      judged.up = reference_weights_[1].data();
      judged.up_bias = bias(1);
    }
    const auto j = conformance::judge(judged, options_.fill == Fill::exact);
    // The Frobenius bound is one on a mean: over few elements chance exceeds it.
    constexpr std::uint64_t kMany = 4096;
    const double limit =
        (roundings() > 0 ? 0.72 : 0.52) * unit_roundoff(p.dtype) + 0x1p-24 * std::sqrt(p.k);
    const bool plain = p.activation == Activation::none;
    const bool far = plain && j.checked >= kMany && !(j.relative() <= limit);
    if (j.wrong == 0 && !far) return {};
    return fmt::format(
        "out {}: {} of {} elements wrong, rows {} to {}, [{}, {}]: got {}, expected {}; Frobenius "
        "{:.3g}, allowed {:.3g}",
        i, j.wrong, j.checked, j.first_row, j.last_row, j.row, j.col, j.got, j.expected,
        j.relative(), limit);
  }

  const Case& case_;
  int rank_;
  const RunOptions& options_;
  std::vector<GuardedTensor> weights_, bias_;
  std::vector<TensorView> weight_views_, bias_views_, out_views_;
  Problem problem_;
  test::OpShape shape_;
  int number_ = 0;
  std::vector<std::byte> reference_;  ///< the operand of each part
  std::vector<std::vector<std::byte>> reference_weights_;
  GuardedTensor input_, gathered_, residual_;
  std::vector<GuardedTensor> out_;
};

}  // namespace

Runner::Runner(int ranks, int workers, double timeout_s) {
  CommunicatorOptions options;
  options.workers = workers;
  options.timeout_s = timeout_s;
  members_ = Communicator::threads(ranks, options);
}

void Runner::report(const std::string& text) {
  const std::scoped_lock lock(mutex_);
  if (failures_.size() < 20) failures_.push_back(text);
}

void Runner::run_rank(int rank, const std::vector<Case>& cases, const RunOptions& options) {
  std::string at = "prepare";
  try {
    std::vector<RankCase> all;
    std::vector<Preparation> preparations;
    for (const auto& c : cases) {
      all.emplace_back(c, rank, options);
      preparations.push_back(all.back().preparation());
    }
    auto& member = members_[static_cast<std::size_t>(rank)];
    member.prepare(preparations);
    int number = 0;
    for (int repeat = 0; repeat < options.repeats; ++repeat) {
      for (std::size_t i = 0; i < cases.size(); ++i) {
        for (const auto& shape : cases[i].calls) {
          at = fmt::format("{} call m {}", cases[i].name, shape.m);
          const std::string wrong = all[i].call(member, shape, number++);
          if (!wrong.empty()) {
            report(fmt::format("rank {}: {} ({} m {})", rank, wrong, cases[i].describe(), shape.m));
          }
        }
      }
    }
  } catch (const std::exception& e) {
    report(fmt::format("rank {}: {}: {}", rank, at, e.what()));
    members_[static_cast<std::size_t>(rank)].abort();
  }
}

std::vector<std::string> Runner::run(const std::vector<Case>& cases, const RunOptions& options) {
  failures_.clear();
  std::vector<std::thread> threads;
  for (int r = 0; r < static_cast<int>(members_.size()); ++r) {
    threads.emplace_back([&, r] { run_rank(r, cases, options); });
  }
  for (auto& t : threads) t.join();
  return failures_;
}

}  // namespace tilelace::conformance
