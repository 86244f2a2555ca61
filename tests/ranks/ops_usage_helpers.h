// SPDX-License-Identifier: Apache-2.0
// Three ranks as threads with small problems, and calls of theirs that a test can spoil.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tilelace/tilelace.h"

namespace tilelace::usage {

constexpr int kRanks = 3;
constexpr std::int64_t kM = 6, kShard = 2, kN0 = 12, kN1 = 20, kK = 8;
constexpr float kPoison = -12345;

/// What went wrong, in words: "usage: <text>", "peer: <text>", ...; "" if nothing did.
template <class Work>
std::string caught(const Work& work) {
  try {
    work();
  } catch (const Error& e) {
    return std::string(name_of(e.kind())) + ": " + e.what();
  }
  return {};
}

using Texts = std::array<std::string, kRanks>;

/// Runs `work` on a thread a rank; what each rank threw.
template <class Work>
Texts on_ranks(const Work& work) {
  Texts texts;
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] { texts[r] = caught([&] { work(r); }); });
  }
  for (auto& t : threads) t.join();
  return texts;
}

/// An fp32 matrix with room behind it, so that views of it may be moved.
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t cols) : memory_((rows + 2) * cols + 64, kPoison) {
    auto* base = memory_.data();
    while (reinterpret_cast<std::uintptr_t>(base) % 64 != 0) ++base;
    view_ = dense(base, DType::fp32, rows, cols);
  }
  [[nodiscard]] const TensorView& view() const { return view_; }
  float& at(std::int64_t i, std::int64_t j) {
    return static_cast<float*>(view_.data)[i * view_.stride + j];
  }
  [[nodiscard]] bool untouched() const {
    for (const float x : memory_) {
      if (x != kPoison) return false;
    }
    return true;
  }
  void poison() { memory_.assign(memory_.size(), kPoison); }

 private:
  std::vector<float> memory_;
  TensorView view_;
};

/// Small integers, so that every sum is exact.
inline float value(int which, int rank, std::int64_t i, std::int64_t j) {
  return static_cast<float>((which * 5 + rank * 7 + i * 3 + j * 2) % 9 - 4);
}

/// One call as a rank makes it. Tests change what is in it.
struct Arguments {
  Op op = Op::ag_gemm;
  AgGemmArgs gather;
  GemmReduceArgs reduce;
  std::vector<TensorView> weights, bias, out;
  std::vector<std::int64_t> rows;
  PlanOptions options;

  void call(Communicator& c) {
    gather.weights = weights;
    gather.bias = bias;
    gather.out = out;
    gather.rows = rows;
    reduce.rows = rows;
    if (op == Op::ag_gemm) return ag_gemm(c, gather, options);
    if (op == Op::gemm_rs) return gemm_rs(c, reduce, options);
    gemm_ar(c, reduce, options);
  }
};

/// What a rank owns. Weights: w0 and w2 [kN0, kK], w1 [kN1, kK]; w3 is not prepared.
struct Rank {
  Matrix a{kShard, kK}, x{kM, kK}, w0{kN0, kK}, w1{kN1, kK}, w2{kN0, kK}, w3{kN0, kK};
  Matrix b0{1, kN0}, b1{1, kN1}, out0{kM, kN0}, out1{kM, kN1}, gathered{kM, kK};
  Matrix out_rs{kShard, kN0}, out_ar{kM, kN0};

  explicit Rank(int r) {
    fill(a, 0, r);
    fill(x, 1, r);
    fill(w0, 2, r);
    fill(w1, 3, r);
    fill(w2, 4, r);
    fill(w3, 5, r);
    fill(b0, 6, 0);
    fill(b1, 7, 0);
  }
  static void fill(Matrix& matrix, int which, int r) {
    for (std::int64_t i = 0; i < matrix.view().rows; ++i) {
      for (std::int64_t j = 0; j < matrix.view().cols; ++j) matrix.at(i, j) = value(which, r, i, j);
    }
  }
  std::array<Matrix*, 5> outputs() { return {&out0, &out1, &gathered, &out_rs, &out_ar}; }
  void poison() {
    for (auto* m : outputs()) m->poison();
  }
  bool untouched() {
    for (auto* m : outputs()) {
      if (!m->untouched()) return false;
    }
    return true;
  }

  Arguments good(Op op) {
    Arguments g;
    g.op = op;
    g.weights = {w0.view(), w1.view()};
    g.bias = {b0.view(), b1.view()};
    g.out = {out0.view(), out1.view()};
    g.gather.m = kM;
    g.gather.a = a.view();
    g.gather.gathered = gathered.view();
    g.reduce.m = kM;
    g.reduce.x = x.view();
    g.reduce.weight = w0.view();
    g.reduce.bias = b0.view();
    g.reduce.out = op == Op::gemm_rs ? out_rs.view() : out_ar.view();
    return g;
  }

  /// The problems of the good calls and of what tests make of them.
  std::vector<Preparation> preparations() {
    Preparation gather{{Op::ag_gemm, kRanks, kM, {kN0, kN1, kN0}, kK, DType::fp32}, {}, {}};
    gather.problem.bias = gather.problem.return_gathered = true;
    gather.weights = {w0.view(), w1.view(), w2.view()};
    Preparation rs{{Op::gemm_rs, kRanks, kM, {kN0}, kK, DType::fp32, true}, {w0.view()}, {}};
    Preparation ar{{Op::gemm_ar, kRanks, kM, {kN0}, kK, DType::fp32, true}, {w0.view()}, {}};
    return {gather, rs, ar};
  }
};

/// The difference of a good call's results and the numbers of a plain loop; "" if there is none.
inline std::string wrong_number(Op op, Rank& rank, int r, int ranks = kRanks,
                                std::int64_t shard = kShard) {
  const auto check = [&](Matrix& out, int weight, int bias) -> std::string {
    const std::int64_t first = op == Op::gemm_rs ? r * shard : 0;
    for (std::int64_t i = 0; i < out.view().rows; ++i) {
      for (std::int64_t j = 0; j < out.view().cols; ++j) {
        float sum = bias < 0 ? 0 : value(bias, 0, 0, j);
        for (std::int64_t k = 0; k < kK; ++k) {
          if (op == Op::ag_gemm) {
            const auto owner = static_cast<int>(i / shard);
            sum += value(0, owner, i % shard, k) * value(weight, r, j, k);
          }
          for (int p = 0; op != Op::ag_gemm && p < ranks; ++p) {
            sum += value(1, p, first + i, k) * value(weight, p, j, k);
          }
        }
        if (out.at(i, j) != sum) {
          return std::string(name_of(op)) + " rank " + std::to_string(r) + " row " +
                 std::to_string(i) + " column " + std::to_string(j) + ": got " +
                 std::to_string(out.at(i, j)) + ", expected " + std::to_string(sum);
        }
      }
    }
    return {};
  };
  if (op == Op::gemm_rs) return check(rank.out_rs, 2, 6);
  if (op == Op::gemm_ar) return check(rank.out_ar, 2, 6);
  for (std::int64_t i = 0; i < kM; ++i) {
    for (std::int64_t k = 0; k < kK; ++k) {
      if (rank.gathered.at(i, k) != value(0, static_cast<int>(i / shard), i % shard, k)) {
        return "ag_gemm: gathered is wrong in row " + std::to_string(i);
      }
    }
  }
  const auto first = check(rank.out0, 2, 6);
  return first.empty() ? check(rank.out1, 3, 7) : first;
}

inline CommunicatorOptions test_options() {
  CommunicatorOptions options;
  options.workers = 1;
  options.timeout_s = 5;
  return options;
}

/// Three prepared ranks.
struct World {
  std::vector<Communicator> members = Communicator::threads(kRanks, test_options());
  std::vector<Rank> ranks;

  World() {
    for (int r = 0; r < kRanks; ++r) ranks.emplace_back(r);
  }
  void prepare() {
    EXPECT_EQ(on_ranks([&](int r) { members[r].prepare(ranks[r].preparations()); }), Texts{});
  }
  /// Nothing was written, and a good call of every op goes through with the right numbers.
  void expect_intact() {
    for (auto& rank : ranks) {
      EXPECT_TRUE(rank.untouched()) << "an output was written";
      rank.poison();
    }
    expect_good_calls();
  }
  void expect_good_calls() {
    for (const Op op : {Op::ag_gemm, Op::gemm_rs, Op::gemm_ar}) {
      Texts numbers;
      const auto texts = on_ranks([&](int r) {
        ranks[r].good(op).call(members[r]);
        numbers[r] = wrong_number(op, ranks[r], r);
        ranks[r].poison();
      });
      EXPECT_EQ(texts, Texts{});
      EXPECT_EQ(numbers, Texts{});
    }
  }
};

/// A wrong call: what is wrong with it, and what the rank that makes it is told (after `op: `).
struct BadCall {
  const char* name;
  Op op;
  std::function<void(Arguments&, Rank&)> spoil;
  std::string text;
};

std::vector<BadCall> bad_gathers();
std::vector<BadCall> bad_reductions();
std::vector<BadCall> bad_plans();

}  // namespace tilelace::usage
