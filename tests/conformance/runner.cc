// SPDX-License-Identifier: Apache-2.0
#include "runner.h"

#include <fmt/core.h>

#include <cmath>
#include <deque>
#include <thread>

namespace tilelace::conformance {
namespace {

constexpr std::size_t kGuard = 128;  // bytes

/// One case on one rank.
class RankCase {
 public:
  RankCase(const Case& c, int rank, const RunOptions& options)
      : case_(c),
        options_(options),
        operands_(weights_, c.problem, rank, options.fill, {c.pad, c.offset, kGuard, true}) {
    operands_.expect_roundings(rounds() ? 1 : 0);
    operands_.fill_weights(c.seed);
  }

  /// Of every third case the weights are not prepared.
  [[nodiscard]] Preparation preparation() const {
    const bool weighed = case_.seed % 3 != 0;
    return {case_.problem, weighed ? operands_.views().weights : std::vector<TensorView>{},
            case_.options};
  }

  /// Makes the n-th call; returns what is wrong with this rank's result.
  std::string call(Communicator& c, const CallShape& shape, int n) {
    passing_.clear();
    operands_.reshape(passing_, problem_of(case_, shape));
    operands_.fill(case_.seed + 1 + static_cast<std::uint64_t>(n));
    if (c.rank() == options_.drop_rank) operands_.drop_input();
    const Problem& p = operands_.problem();
    const auto& v = operands_.views();
    if (p.op == Op::ag_gemm) {
      ag_gemm(c, {p.m, v.input, v.weights, v.biases, p.activation, v.outs, v.gathered, p.rows},
              case_.options);
    } else {
      GemmReduceArgs args{
          p.m,          v.input,   v.weights[0], p.bias ? v.biases[0] : TensorView{},
          p.activation, v.outs[0], p.rows};
      args.residual = v.residual;
      p.op == Op::gemm_rs ? gemm_rs(c, args, case_.options) : gemm_ar(c, args, case_.options);
    }
    if (options_.observe) options_.observe(c.rank(), n, v.outs);
    return judge();
  }

 private:
  /// Whether a rank's part of a sum is rounded on its way.
  [[nodiscard]] bool rounds() const {
    const Problem& p = case_.problem;
    return p.op != Op::ag_gemm && case_.options.partials.value_or(p.dtype) != kAccumulator;
  }

  [[nodiscard]] std::string judge() const {
    const Problem& p = case_.problem;
    double worst = 0;
    const std::string wrong = operands_.check(&worst);
    const double limit =
        (rounds() ? 0.72 : 0.52) * unit_roundoff(p.dtype) + 0x1p-24 * std::sqrt(p.k);
    if (!wrong.empty() || worst <= limit) return wrong;
    return fmt::format("Frobenius {:.3g}, allowed {:.3g}", worst, limit);
  }

  const Case& case_;
  const RunOptions& options_;
  HostPlace weights_, passing_;
  test::Operands operands_;
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
    std::deque<RankCase> all;
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
