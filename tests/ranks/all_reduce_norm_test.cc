// SPDX-License-Identifier: Apache-2.0
// all_reduce_norm of CPU ranks: the bits of plain loops, whatever is asked for.
#include <cstring>
#include <functional>

#include "comm_helpers.h"
#include "conformance/norm_reference.h"
#include "core/e4m3.h"
#include "ops_usage_helpers.h"

namespace tilelace::test {
namespace {

using usage::caught;

/// A rank's tensors, at 64 bytes, with a guard behind.
template <class T>
class Tensor {
 public:
  explicit Tensor(std::size_t count) : count_(count), memory_(count * sizeof(T) + 256, kPoison) {}
  explicit Tensor(const std::vector<T>& values) : Tensor(values.size()) {
    if (!values.empty()) std::memcpy(data(), values.data(), count_ * sizeof(T));
  }
  T* data() {
    const std::size_t off = reinterpret_cast<std::uintptr_t>(memory_.data()) % 64;
    return reinterpret_cast<T*>(memory_.data() + 64 - off);
  }
  /// "", or where it differs.
  std::string difference(const char* what, const std::vector<T>& want) {
    for (std::size_t i = 0; i < want.size(); ++i)
      if (std::memcmp(data() + i, &want[i], sizeof(T)) != 0)
        return fmt::format("{} {}: got {}, expected {}", what, i, data()[i], want[i]);
    const auto* end = reinterpret_cast<std::byte*>(data() + count_);
    return end[0] == kPoison && end[63] == kPoison ? "" : fmt::format("{}: guard written", what);
  }

 private:
  static constexpr std::byte kPoison{0xa5};
  std::size_t count_;
  std::vector<std::byte> memory_;
};

/// A rank's call; what is wrong with its results, or "".
std::string wrong_result(Communicator& member, const NormCase& c) {
  const auto count = static_cast<std::size_t>(c.m * c.n);
  const NormResults want = norm_results(c, member.size());
  Tensor<std::uint16_t> x(norm_input(c, member.rank(), c.m * c.n)),
      residual(norm_input(c, member.size(), c.m * c.n)),
      weight(norm_input(c, member.size() + 1, c.n)), other(count), normed(count);
  Tensor<std::uint8_t> quantised(want.quantised.size());
  Tensor<float> scales(want.scales.size());
  if (c.quant == NormQuant::given) *scales.data() = kGivenScale;
  Tensor<std::uint16_t>& out = c.in_place ? residual : other;
  all_reduce_norm(member,
                  norm_args(c, {x.data(), residual.data(), weight.data(), out.data(), normed.data(),
                                quantised.data(), scales.data()}),
                  c.options);
  std::string wrong;
  const auto note = [&](std::string text) {
    if (wrong.empty()) wrong = std::move(text);
  };
  if (c.out) note(out.difference("out", want.out));
  if (c.normed) note(normed.difference("normed", want.normed));
  note(quantised.difference("quantised", want.quantised));
  note(scales.difference("scale", want.scales));
  note(x.difference("x", norm_input(c, member.rank(), c.m * c.n)));
  return wrong.empty() ? "" : fmt::format("rank {}: {}: {}", member.rank(), c.text(), wrong);
}

void on_threads(int ranks, int workers, const std::function<std::string(Communicator&)>& calls) {
  auto members = Communicator::threads(ranks, {.workers = workers, .timeout_s = 60});
  comm::test::run_threads(
      ranks, [&](int r) { EXPECT_EQ(calls(members[static_cast<std::size_t>(r)]), ""); });
}

TEST(AllReduceNorm, EveryRowsAndColumnsHaveTheBitsOfPlainLoops) {
  for (int ranks = 1; ranks <= 4; ++ranks)
    on_threads(ranks, 1 + ranks % 3, [](Communicator& c) {
      for (const std::int64_t m : {0, 1, 2, 7, 33})
        for (const std::int64_t n : {8, 4096, 16384})
          for (const auto quant : {NormQuant::none, NormQuant::token, NormQuant::block}) {
            if (m * n > 40000 && (quant != NormQuant::block || c.size() != 2)) continue;
            NormCase one;
            one.m = m, one.n = quant == NormQuant::block && n == 8 ? 128 : n;
            one.quant = quant;
            one.in_place = m % 2 == 0;
            one.seed = static_cast<std::uint64_t>(m + n);
            if (std::string wrong = wrong_result(c, one); !wrong.empty()) return wrong;
          }
      return std::string();
    });
}

TEST(AllReduceNorm, RandomCallsHaveTheBitsOfPlainLoops) {
  for (int ranks = 1; ranks <= 4; ++ranks)
    on_threads(ranks, 2, [](Communicator& c) {
      NormDraw draw(17 + static_cast<std::uint64_t>(c.size()), 20000);
      for (int i = 0; i < 25; ++i)
        if (std::string wrong = wrong_result(c, draw.next(false)); !wrong.empty()) return wrong;
      return std::string();
    });
}

TEST(AllReduceNorm, E4m3IsTheNearestOfAllValues) {
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    const float f =
        std::ldexp(static_cast<float>(static_cast<int>(random() % 4097U) - 2048) / 256.0F,
                   static_cast<int>(random() % 22U) - 14);
    ASSERT_EQ(float_to_e4m3(f), nearest_e4m3(f)) << f;
  }
  for (unsigned bits = 0; bits < 0x7f; ++bits) EXPECT_EQ(float_to_e4m3(value_of_e4m3(bits)), bits);
  EXPECT_EQ(float_to_e4m3(std::numeric_limits<float>::infinity()), 0x7e);
  EXPECT_EQ(float_to_e4m3(-1e9F), 0xfe);
  EXPECT_EQ(float_to_e4m3(std::numeric_limits<float>::quiet_NaN()), 0x7f);
}

/// Good arguments of 2 x 128.
struct Good {
  alignas(16) std::uint16_t x[256]{}, residual[256]{}, weight[256]{}, out[256]{}, normed[256]{};
  alignas(16) std::uint8_t quantised[256]{};
  alignas(16) float scales[4]{};
  AllReduceNormArgs args;

  Good() {
    args.x = x, args.residual = residual, args.weight = weight;
    args.out = out, args.normed = normed, args.m = 2, args.n = 128;
  }
};

TEST(AllReduceNorm, WrongArgumentsAreNamedAndLeaveRanksInStep) {
  const std::vector<std::pair<const char*, std::function<void(Good&)>>> cases{
      {"item: got fp32", [](Good& g) { g.args.item = Item::fp32; }},
      {"n: got 12", [](Good& g) { g.args.n = 12; }},
      {"n: got 16392", [](Good& g) { g.args.n = 16392; }},
      {"m: got -1", [](Good& g) { g.args.m = -1; }},
      {"eps: got -1", [](Good& g) { g.args.eps = -1; }},
      {"x: got null", [](Good& g) { g.args.x = nullptr; }},
      {"weight: got null", [](Good& g) { g.args.weight = nullptr; }},
      {"normed: got null", [](Good& g) { g.args.normed = nullptr; }},
      {"out: got data 2 bytes off", [](Good& g) { g.args.out = g.out + 1; }},
      {"quantised and scales: got memory", [](Good& g) { g.args.scales = g.scales; }},
      {"quantised: got null", [](Good& g) { g.args.quant = NormQuant::token; }},
      {"expected a multiple of 128",
       [](Good& g) { g.args.quant = NormQuant::block, g.args.n = 64; }},
      {"out and normed overlap", [](Good& g) { g.args.normed = g.out + 8; }},
      {"residual and out overlap", [](Good& g) { g.args.out = g.residual + 8; }},
      {"weight and normed overlap", [](Good& g) { g.args.normed = g.weight, g.args.m = 1; }}};
  on_threads(2, 2, [&](Communicator& c) {
    for (const auto& [text, spoil] : cases) {
      Good good;
      if (c.rank() == 0) spoil(good);
      const std::string got = caught([&] { all_reduce_norm(c, good.args); });
      EXPECT_NE(got.find("usage: "), std::string::npos) << text << ": " << got;
      EXPECT_TRUE(c.rank() == 1 || got.find(text) != std::string::npos) << got;
      if (std::string wrong = wrong_result(c, {}); !wrong.empty()) return wrong;
    }
    return std::string();
  });
}

TEST(AllReduceNorm, RanksThatDisagreeAllGetBothSides) {
  on_threads(2, 2, [](Communicator& c) {
    const std::vector<std::function<void(Good&)>> others{
        [](Good& g) { g.args.m = 1; }, [](Good& g) { g.args.eps = 1; },
        [](Good& g) { g.args.m = 1, g.args.n = 256; }, [](Good& g) { g.args.residual = nullptr; },
        [](Good& g) {
          g.args.quant = NormQuant::token;
          g.args.quantised = g.quantised, g.args.scales = g.scales;
        }};
    for (const auto& other : others) {
      Good good;
      if (c.rank() == 1) other(good);
      const std::string got = caught([&] { all_reduce_norm(c, good.args); });
      EXPECT_NE(got.find("called [all_reduce_norm of bf16"), std::string::npos) << got;
      if (std::string wrong = wrong_result(c, {}); !wrong.empty()) return wrong;
    }
    return std::string();
  });
}

}  // namespace
}  // namespace tilelace::test
