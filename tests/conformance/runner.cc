// SPDX-License-Identifier: Apache-2.0
#include "runner.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "backend/cpu/gemm/error_bound.h"
#include "backend/cpu/gemm/reference.h"

namespace tilelace::conformance {
namespace {

/// Non-zeros a row and rank, so that all partial and total sums, bias and residual included, are
/// exact.
std::int64_t nonzeros(const Problem& p) {
  return p.op == Op::ag_gemm ? 31 : std::max(1, std::min(32, 256 / p.ranks) - 1);
}

/// Both came from the same type by widening, so equal bits here are equal bits there. A sum that is
/// zero is +0 in every order.
bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

/// One case on one rank: its operands and the knowledge to judge its results.
class RankCase {
 public:
  RankCase(const Case& c, int rank, const RunOptions& options)
      : case_(c), rank_(rank), options_(options) {
    const Problem& p = c.problem;
    for (std::size_t i = 0; i < p.n.size(); ++i) {
      weights_.emplace_back(p.dtype, p.n[i], p.k, c.pad, c.offset);
      fill(weights_.back(), weight_source(i, rank), 0);
      weight_views_.push_back(weights_.back().view());
      if (!p.bias) continue;
      bias_.emplace_back(p.dtype, 1, p.n[i], c.pad, c.offset);
      fill(bias_.back(), source(100 + i, p.n[i], p.n[i]), 0);
      bias_views_.push_back(bias_.back().view());
    }
  }

  [[nodiscard]] Preparation preparation() const {
    return {case_.problem, weight_views_, case_.options};
  }

  /// Makes the n-th call; returns what is wrong with this rank's result.
  std::string call(Communicator& c, const CallShape& shape, int n) {
    problem_ = problem_of(case_, shape);
    borders_ = borders_of(problem_);
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
  [[nodiscard]] Source source(std::uint64_t what, std::int64_t cols, std::int64_t limit) const {
    return {options_.fill, mix(case_.seed + options_.salt * 977 + what * 0x9e3779b9), cols, limit};
  }
  /// Weight i: ag_gemm ranks hold different columns of the product, the others different terms.
  [[nodiscard]] Source weight_source(std::size_t i, int rank) const {
    return source(200 + i * 64 + static_cast<std::uint64_t>(rank), case_.problem.k,
                  case_.problem.k * 2);
  }
  /// The operand: ag_gemm all rows (rank 0 stands for all), else this rank's terms.
  [[nodiscard]] Source input_source(int rank) const {
    const int owner = problem_.op == Op::ag_gemm ? 0 : rank;
    return source(10'000 + static_cast<std::uint64_t>(number_ * 64 + owner), problem_.k,
                  nonzeros(problem_));
  }
  /// Rows like the result's, the same of gemm_ar on every rank.
  [[nodiscard]] Source residual_source() const {
    return source(300'000 + static_cast<std::uint64_t>(number_), problem_.n[0], problem_.n[0]);
  }
  [[nodiscard]] std::int64_t first_row() const {
    return problem_.op == Op::gemm_ar ? 0 : borders_[static_cast<std::size_t>(rank_)];
  }
  [[nodiscard]] std::int64_t own_rows() const {
    return borders_[static_cast<std::size_t>(rank_) + 1] -
           borders_[static_cast<std::size_t>(rank_)];
  }

  void make_operands() {
    const bool gather = problem_.op == Op::ag_gemm;
    input_ = {problem_.dtype, gather ? own_rows() : problem_.m, problem_.k, case_.pad,
              case_.offset};
    fill(input_, input_source(rank_), gather ? first_row() : 0);
    if (rank_ == options_.drop_rank) {
      for (std::int64_t r = 0; r < input_.view().rows; ++r) {
        for (std::int64_t k = 0; k < problem_.k; ++k) input_.set(r, k, 0);
      }
    }
    out_.clear();
    out_views_.clear();
    const std::int64_t rows = problem_.op == Op::gemm_rs ? own_rows() : problem_.m;
    for (std::size_t i = 0; i < problem_.outputs(); ++i) {
      out_.emplace_back(problem_.dtype, rows, problem_.n[i], case_.pad, case_.offset);
      out_views_.push_back(out_.back().view());
    }
    gathered_ = {problem_.dtype, problem_.m, problem_.k, case_.pad, case_.offset};
    if (!problem_.residual) return;
    residual_ = {problem_.dtype, rows, problem_.n[0], case_.pad, case_.offset};
    fill(residual_, residual_source(), problem_.op == Op::gemm_rs ? first_row() : 0);
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
      const std::string wrong = options_.fill == Fill::exact ? judge_exact(i) : judge_bounds(i);
      if (!wrong.empty()) return wrong;
    }
    return {};
  }

  std::string judge_gathered() const {
    if (!gathered_.guards_intact()) return "wrote outside the gathered operand";
    for (std::int64_t r = 0; r < problem_.m; ++r) {
      const auto want = input_source(0).row(r);
      GuardedTensor row(problem_.dtype, 1, problem_.k, 0, 0);
      for (std::int64_t k = 0; k < problem_.k; ++k) {
        row.set(0, k, want[static_cast<std::size_t>(k)]);
        if (!same_bits(gathered_.get(r, k), row.get(0, k))) {
          return fmt::format("gathered [{}, {}]: got {}, expected {}", r, k, gathered_.get(r, k),
                             row.get(0, k));
        }
      }
    }
    return {};
  }

  /// Integers by integers: no product of the library takes part.
  std::string judge_exact(std::size_t i) const {
    const Problem& p = problem_;
    const int terms = p.op == Op::ag_gemm ? 1 : p.ranks;
    std::vector<std::vector<std::vector<float>>> w(static_cast<std::size_t>(terms));
    for (int t = 0; t < terms; ++t) {
      for (std::int64_t n = 0; n < p.n[i]; ++n) {
        w[static_cast<std::size_t>(t)].push_back(
            weight_source(i, p.op == Op::ag_gemm ? rank_ : t).row(n));
      }
    }
    for (std::int64_t r = 0; r < out_[i].view().rows; ++r) {
      std::vector<float> want(static_cast<std::size_t>(p.n[i]));
      if (p.bias) {
        for (std::int64_t n = 0; n < p.n[i]; ++n)
          want[static_cast<std::size_t>(n)] = bias_[i].get(0, n);
      }
      if (p.residual) {
        const auto row = residual_source().row((p.op == Op::gemm_rs ? first_row() : 0) + r);
        for (std::size_t n = 0; n < want.size(); ++n) want[n] += row[n];
      }
      for (int t = 0; t < terms; ++t) {
        const auto x = input_source(t).row((p.op == Op::gemm_rs ? first_row() : 0) + r);
        for (std::size_t k = 0; k < x.size(); ++k) {
          if (x[k] == 0) continue;
          for (std::size_t n = 0; n < want.size(); ++n) {
            want[n] += x[k] * w[static_cast<std::size_t>(t)][n][k];
          }
        }
      }
      for (std::int64_t n = 0; n < p.n[i]; ++n) {
        const float got = out_[i].get(r, n);
        const float expected = want[static_cast<std::size_t>(n)];
        if (!same_bits(got, expected)) {
          return fmt::format("out {} [{}, {}]: got {}, expected {}", i, r, n, got, expected);
        }
      }
    }
    return {};
  }

  std::string judge_bounds(std::size_t i) const {
    const Problem& p = problem_;
    const TensorView& out = out_[i].view();
    if (out.rows == 0) return {};
    cpu::GemmReference gate(out.rows, p.n[i]);
    cpu::GemmReference up(out.rows, p.n[i]);
    const bool paired = p.activation == Activation::swiglu;
    const int terms = p.op == Op::ag_gemm ? 1 : p.ranks;
    const bool half_partials =
        p.op != Op::ag_gemm && case_.options.partials.value_or(p.dtype) != DType::fp32;
    for (int t = 0; t < terms; ++t) {
      GuardedTensor x(p.dtype, out.rows, p.k, 0, 0);
      fill(x, input_source(t), p.op == Op::gemm_rs ? first_row() : 0);
      for (std::size_t j = 0; j < (paired ? 2U : 1U); ++j) {
        GuardedTensor w(p.dtype, p.n[i], p.k, 0, 0);
        fill(w, weight_source(i + j, p.op == Op::ag_gemm ? rank_ : t), 0);
        (j == 0 ? gate : up).add(x.view(), w.view(), half_partials);
      }
    }
    if (p.bias) gate.add_bias(bias_[i].view().data, p.dtype);
    if (p.residual) gate.add(residual_.view());
    if (p.bias && paired) up.add_bias(bias_[i + 1].view().data, p.dtype);
    cpu::ErrorModel model;
    model.activation = p.activation;
    // fp32: evaluating the activation itself errs by up to 12 u (see the epilogue's own test).
    model.roundings = p.dtype == DType::fp32 && p.activation != Activation::none ? 12 : 1;
    if (model.roundings > 1) model.frobenius_factor = 12;
    const auto error = cpu::check_gemm(out, model, gate, paired ? &up : nullptr);
    // The Frobenius bound is one on a mean: over few elements chance exceeds it, and the
    // elementwise bound judges alone.
    constexpr std::int64_t kMany = 4096;
    const bool few = out.rows * out.cols < kMany;
    if (error.pass || (few && error.row < 0)) return {};
    return fmt::format(
        "out {}: [{}, {}] got {}, expected {}; worst {:.2f} of the bound, Frobenius "
        "{:.3g}, allowed {:.3g}",
        i, error.row, error.col, error.got, error.expected, error.worst, error.frobenius,
        error.allowed_frobenius);
  }

  const Case& case_;
  int rank_;
  const RunOptions& options_;
  std::vector<GuardedTensor> weights_, bias_;
  std::vector<TensorView> weight_views_, bias_views_, out_views_;
  Problem problem_;
  std::vector<std::int64_t> borders_;
  int number_ = 0;
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
