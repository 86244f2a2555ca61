// SPDX-License-Identifier: Apache-2.0
// Three ranks as threads with small problems, and calls whose arguments a test can make wrong.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "tilelace/tilelace.h"

namespace tilelace::usage {

constexpr int kRanks = 3;
constexpr std::int64_t kM = 6, kShard = 2, kN0 = 12, kN1 = 20, kK = 8;
constexpr float kPoison = -12345;
constexpr bool kPrepared = true;

constexpr Op kGather = Op::ag_gemm;
constexpr Op kScatter = Op::gemm_rs;
constexpr Op kAllReduce = Op::gemm_ar;
constexpr std::int64_t kHuge = std::int64_t{1} << 40;

inline void move(TensorView& view, std::ptrdiff_t bytes) {
  view.data = static_cast<std::byte*>(view.data) + bytes;
}
inline void* nowhere(int page) { return reinterpret_cast<void*>(std::uintptr_t{1} << 44 << page); }

/// The error that `work` throws, as "usage: <text>", "peer: <text>", ...; "" if none.
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

/// Runs `work` on a thread per rank and returns the error of each rank.
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

/// An fp32 matrix with spare memory after it, so that views of it can be moved.
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t cols) : memory_((rows + 2) * cols + 64, kPoison) {
    auto* base = memory_.data();
    while (reinterpret_cast<std::uintptr_t>(base) % 64 != 0) ++base;
    view_ = dense(base, DType::fp32, rows, cols);
  }
  Matrix(Matrix&&) = default;  // views are valid after a move
  Matrix& operator=(Matrix&&) = default;
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

/// The arguments of a rank's call, which tests change.
struct Arguments {
  Op op = Op::ag_gemm;
  AgGemmArgs gather;
  GemmReduceArgs reduce;
  std::vector<TensorView> weights, bias, out;
  std::vector<std::int64_t> rows;
  PlanOptions options;

  void call(Communicator& c) {
    complete();
    if (op == Op::ag_gemm) return ag_gemm(c, gather, options);
    if (op == Op::gemm_rs) return gemm_rs(c, reduce, options);
    gemm_ar(c, reduce, options);
  }
  void check(Communicator& c) {
    complete();
    op == Op::ag_gemm ? check_call(c, gather, options) : check_call(c, op, reduce, options);
  }

 private:
  void complete() {
    gather.weights = weights;
    gather.bias = bias;
    gather.out = out;
    gather.rows = rows;
    reduce.rows = rows;
  }
};

inline Preparation preparation(Op op, int ranks, std::vector<TensorView> weights) {
  Preparation p;
  p.problem.op = op;
  p.problem.ranks = ranks;
  p.problem.m = kM;
  for (const auto& w : weights) p.problem.n.push_back(w.rows);
  p.problem.k = weights[0].cols;
  p.problem.dtype = DType::fp32;
  p.problem.bias = true;
  p.weights = std::move(weights);
  return p;
}

/// The tensors of a rank. The weights are w0 to w3, but w3 is not prepared.
struct Rank {
  Matrix a{kShard, kK}, x{kM, kK}, w0{kN0, kK}, w1{kN1, kK}, w2{kN0, kK}, w3{kN0, kK};
  Matrix narrow{kN0, 4}, b0{1, kN0}, b1{1, kN1}, out0{kM, kN0}, out1{kM, kN1}, gathered{kM, kK};
  Matrix out_rs{kShard, kN0}, out_ar{kM, kN0};

  explicit Rank(int r) {
    fill(a, 0, r);
    fill(x, 1, r);
    fill(w0, 2, r);
    fill(w1, 3, r);
    fill(w2, 4, r);
    fill(w3, 5, r);
    fill(narrow, 8, r);
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

  /// The preparations that correct calls and the tests' wrong calls need.
  std::vector<Preparation> preparations() {
    auto gather = preparation(Op::ag_gemm, kRanks, {w0.view(), w1.view(), w2.view()});
    gather.problem.return_gathered = true;
    return {gather, preparation(Op::gemm_rs, kRanks, {w0.view()}),
            preparation(Op::gemm_ar, kRanks, {w0.view()}),
            preparation(Op::gemm_ar, kRanks, {narrow.view()})};
  }
};

/// The difference between a call's results and those of a plain loop; "" if there is none.
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

/// Three ranks.
struct World {
  std::vector<Communicator> members = Communicator::threads(kRanks, test_options());
  std::vector<Rank> ranks;

  explicit World(bool prepared = false) {
    for (int r = 0; r < kRanks; ++r) ranks.emplace_back(r);
    if (prepared) prepare();
  }
  void prepare() {
    EXPECT_EQ(on_ranks([&](int r) { members[r].prepare(ranks[r].preparations()); }), Texts{});
  }
  /// Expects that nothing was written, and that a correct call of every op gives the right numbers.
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

/// A wrong call: how to make it wrong, and the error text that its rank must get (after `op: `).
struct BadCall {
  Op op;
  std::function<void(Arguments&, Rank&)> spoil;
  std::string text;
};

#define CHANGE(...) [](Arguments& g, Rank& r) { (void)g, (void)r, __VA_ARGS__; }
#define BAD_CALL(op, kind, text, ...)             \
  {                                               \
    op,                                           \
        [](Arguments& g, Rank& r) {               \
          auto& a = g.kind;                       \
          auto& o = g.options;                    \
          (void)a, (void)o, (void)r, __VA_ARGS__; \
        },                                        \
        text                                      \
  }
#define AG(...) BAD_CALL(kGather, gather, __VA_ARGS__)
#define RS(...) BAD_CALL(kScatter, reduce, __VA_ARGS__)
#define AR(...) BAD_CALL(kAllReduce, reduce, __VA_ARGS__)

inline const std::vector<BadCall> kBadGathers = {
    AG("a: got null data, expected a [2, 8] matrix", a.a.data = nullptr),
    AG("weight 1: got null data, expected a [20, 8] matrix", g.weights[1].data = nullptr),
    AG("bias 0: got null data, expected a [1, 12] matrix", g.bias[0].data = nullptr),
    AG("out 1: got null data, expected a [6, 20] matrix", g.out[1].data = nullptr),
    AG("m: got -1, expected 0 to 1099511627776", a.m = -1),
    AG("m: got 1099511627777, expected 0 to 1099511627776", a.m = kHuge + 1),
    AG("m 1099511627776 x n 32 x k 1099511627776: the staging would have more bytes than 64 bits "
       "can count",
       a.m = a.a.cols = kHuge),
    AG("k: got 0, expected 1 to 1099511627776", a.a.cols = 0),
    AG("a: got data 1 bytes off, expected 16-byte alignment", move(a.a, 1)),
    AG("a: got data 4 bytes off, expected 16-byte alignment", move(a.a, 4)),
    AG("a: got data 8 bytes off, expected 16-byte alignment", move(a.a, 8)),
    AG("a: got data 15 bytes off, expected 16-byte alignment", move(a.a, 15)),
    AG("weight 0: got data 4 bytes off, expected 16-byte alignment", move(g.weights[0], 4)),
    AG("bias 1: got data 8 bytes off, expected 16-byte alignment", move(g.bias[1], 8)),
    AG("out 0: got data 12 bytes off, expected 16-byte alignment", move(g.out[0], 12)),
    AG("a: got a row stride of 7, expected at least 8", a.a.stride = 7),
    AG("out 1: got a row stride of 1099511627780, expected at most 1099511627776",
       g.out[1].stride = kHuge + 4),
    AG("a: got rows 36 bytes apart, expected a multiple of 16", a.a.stride = 9),
    AG("weight 0: got fp32, expected bf16", a.a.dtype = DType::bf16),
    AG("weight 1: got fp16, expected fp32", g.weights[1].dtype = DType::fp16),
    AG("bias 0: got bf16, expected fp32", g.bias[0].dtype = DType::bf16),
    AG("out 1: got bf16, expected fp32", g.out[1].dtype = DType::bf16),
    AG("gathered: got fp16, expected fp32", a.gathered.dtype = DType::fp16),
    AG("dtype: got the unknown value 9, expected bf16, fp16 or fp32", a.a.dtype = DType{9}),
    AG("a: got [3, 8], expected [2, 8]", a.a.rows = 3),
    AG("weight 1: got [20, 9], expected [20, 8]", g.weights[1].cols = 9),
    AG("bias 0: got [1, 13], expected [1, 12]", g.bias[0].cols = 13),
    AG("out 0: got [5, 12], expected [6, 12]", g.out[0].rows = 5),
    AG("out 1: got [6, 19], expected [6, 20]", g.out[1].cols = 19),
    AG("gathered: got [6, 9], expected [6, 8]", a.gathered.cols = 9),
    AG("weights: got none, expected at least one", g.weights.clear()),
    AG("weights: got 17, expected at most 16", g.weights.assign(17, r.w0.view())),
    AG("bias: got 1, expected none or 2", g.bias.pop_back()),
    AG("out: got 1, expected 2", g.out.pop_back()),
    AG("out: got 3, expected 2", g.out.push_back(r.out_ar.view())),
    AG("swiglu: got weights of n 12, expected two of equal n (gate, up)", g.weights.pop_back(),
       a.activation = Activation::swiglu),
    AG("swiglu: got weights of n 12+20, expected two of equal n (gate, up)",
       a.activation = Activation::swiglu),
    AG("out: got 2, expected 1", g.weights[1] = r.w2.view(), g.bias[1] = r.b0.view(),
       a.activation = Activation::swiglu),
    AG("activation: got the unknown value 7, expected none, gelu, gelu_tanh, silu or swiglu",
       a.activation = Activation{7}),
    AG("rows: got 2 entries, expected one per rank (3)", g.rows = {3, 3}),
    AG("rows: got a sum of 5, expected m 6", g.rows = {1, 2, 2}),
    AG("rows: got an entry -1, expected entries of at least 0 that add up to m 6",
       g.rows = {-1, 4, 3}),
    AG("a and out 0 overlap: pass separate tensors", a.a.data = g.out[0].data, move(a.a, 64)),
    AG("out 0 and out 1 overlap: pass separate tensors", g.out[1].data = g.out[0].data),
    AG("out 1 and gathered overlap: pass separate tensors", a.gathered.data = g.out[1].data),
    AG("a and gathered overlap: pass separate tensors", a.gathered.data = a.a.data),
    AG("bias 0 and out 0 overlap: pass separate tensors", g.bias[0].data = g.out[0].data),
};

inline const std::vector<BadCall> kBadReductions = {
    RS("x: got null data, expected a [6, 8] matrix", a.x.data = nullptr),
    AR("weight 0: got null data, expected a [12, 8] matrix", a.weight.data = nullptr),
    RS("out: got null data, expected a [2, 12] matrix", a.out.data = nullptr),
    AR("out: got null data, expected a [6, 12] matrix", a.out.data = nullptr),
    AR("x: got 1099511627776 rows 4398046511104 bytes apart, expected a span under 2^63 bytes",
       a.m = a.x.rows = a.x.stride = kHuge),
    RS("x: got data 3 bytes off, expected 16-byte alignment", move(a.x, 3)),
    AR("weight 0: got data 8 bytes off, expected 16-byte alignment", move(a.weight, 8)),
    AR("bias 0: got data 4 bytes off, expected 16-byte alignment", move(a.bias, 4)),
    RS("weight 0: got fp32, expected fp16", a.x.dtype = DType::fp16),
    AR("x: got [7, 8], expected [6, 8]", a.x.rows = 7),
    RS("weight 0: got [12, 4], expected [12, 8]", a.weight.cols = 4),
    RS("out: got [6, 12], expected [2, 12]", a.out = r.out_ar.view()),
    AR("out: got [2, 12], expected [6, 12]", a.out = r.out_rs.view()),
    RS("activation: got swiglu, which needs two weights, expected none, gelu, gelu_tanh or silu",
       a.activation = Activation::swiglu),
    AR("rows: got a list, expected none: the op splits m itself", g.rows = {2, 2, 2}),
    AR("x and out overlap: pass separate tensors", a.x.data = a.out.data),
    RS("bias 0 and out overlap: pass separate tensors", a.bias.data = a.out.data),
    AR("residual and out overlap: pass separate tensors", a.residual = a.out),
    RS("residual: got [6, 12], expected [2, 12]", a.residual = r.out_ar.view()),
    RS("residual: got null data, expected a [2, 12] matrix", a.residual = a.out,
       a.residual.data = nullptr),
    AR("activation with a residual: got silu, expected none", a.residual = r.out0.view(),
       a.activation = Activation::silu),
    RS("staging: the call needs 384 bytes of flags and 384000 of data (flags 4*84 + (outgoing m "
       "3000 + incoming 3000) * row 64), but 768 and 3328 are prepared: call prepare with a larger "
       "m",
       a.m = 3000, a.x = dense(nowhere(0), DType::fp32, 3000, kK),
       a.out = dense(nowhere(1), DType::fp32, 1000, kN0)),
};

inline const std::vector<BadCall> kBadPlans = {
    AG("plan fused ring store is not possible: transport store has no relays: it needs route mesh",
       o.route = RouteKind::ring, o.transport = Transport::store),
    AR("plan fused mesh push is not possible: gemm_ar has no straddle: no tile crosses a border of "
       "its blocks",
       o.straddle = true),
    RS("plan fused mesh push is not possible: only gemm_ar has blocks", o.blocks = 2),
    AR("plan fused mesh push is not possible: blocks is 0, must be 1 to 64", o.blocks = 0),
    AG("plan fused mesh push is not possible: tile_m is 0, must be 1 to 4096", o.tile_m = 0),
    AR("plan fused mesh push is not possible: tile_m is -64, must be 1 to 4096", o.tile_m = -64),
    AG("plan fused mesh push is not possible: chunk_rows is 0, must be at least 1",
       o.chunk_rows = 0),
    AR("plan fused two_level push is not possible: two_level needs local_ranks that "
       "divide 3 ranks",
       o.route = RouteKind::two_level, o.local_ranks = 2),
    AR("tile 4096x256 was not prepared: call prepare with the plan's options", o.tile_m = 4096,
       o.chunk_rows = 64),
    AG("path: got the unknown value 3, expected fused, medium or unfused", o.path = Path{3}),
    AR("route: got the unknown value 9, expected mesh, ring or two_level", o.route = RouteKind{9}),
    RS("transport: got the unknown value 5, expected push, pull, store, nccl or multimem",
       o.transport = Transport{5}),
    RS("partials: got the unknown value 3, expected bf16, fp16 or fp32", o.partials = DType{3}),
    AR("plan fused mesh push is not possible: chunk_rows is 9223372036854775807, must "
       "be at most 1099511627776",
       o.chunk_rows = std::numeric_limits<std::int64_t>::max()),
    RS("tiles that straddle shards were not prepared: call prepare with the plan's options",
       o.straddle = true),
};

}  // namespace tilelace::usage
