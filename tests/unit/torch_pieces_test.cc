// SPDX-License-Identifier: Apache-2.0
// What a pool hands out, beside a model that knows every grain of the range.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <vector>

#include "bindings/torch/pieces.h"

namespace {

using tilelace::torch_binding::Pieces;

constexpr std::size_t kGrain = Pieces::kGrain;
constexpr int kFresh = -1;

/// Streams are addresses: those of a rank's own array.
using Streams = std::array<char, 3>;

class Model {
 public:
  explicit Model(std::size_t grains) : grains_(grains) {}

  /// The smallest gap, the lowest of equal ones.
  [[nodiscard]] std::optional<std::size_t> take(std::size_t wanted, int stream) {
    std::size_t best = 0;
    std::size_t best_size = 0;
    for (std::size_t i = 0; i < grains_.size();) {
      std::size_t end = i;
      while (end < grains_.size() && open(grains_[end], stream)) ++end;
      if (end - i >= wanted && (best_size == 0 || end - i < best_size)) {
        best = i;
        best_size = end - i;
      }
      i = std::max(end, i + 1);
    }
    if (best_size == 0) return std::nullopt;
    std::fill_n(grains_.begin() + static_cast<std::ptrdiff_t>(best), wanted, Grain{true, stream});
    return best;
  }
  void give_back(std::size_t at, std::size_t size) {
    for (std::size_t i = at; i < at + size; ++i) grains_[i].taken = false;
  }

 private:
  struct Grain {
    bool taken = false;
    int stream = kFresh;
  };
  static bool open(const Grain& g, int stream) {
    return !g.taken && (g.stream == kFresh || g.stream == stream);
  }
  std::vector<Grain> grains_;
};

struct Out {
  std::size_t at, grains;
};

TEST(TorchPieces, AreWhereTheModelPutsThem) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return std::size_t{random()} % n; };
    const std::size_t grains = 20 + below(80);
    const Streams streams{};
    Pieces pieces(grains * kGrain + below(kGrain));
    Model model(grains);
    std::vector<Out> out;
    std::size_t taken = 0;
    int refused = 0;

    for (int step = 0; step < 5000; ++step) {
      if (!out.empty() && below(100) < 48) {
        std::swap(out[below(out.size())], out.back());
        ASSERT_TRUE(pieces.give_back(out.back().at * kGrain));
        model.give_back(out.back().at, out.back().grains);
        taken -= out.back().grains;
        out.pop_back();
      } else {
        const auto stream = below(streams.size());
        const std::size_t size = 1 + below(12);
        const auto expected = model.take(size, static_cast<int>(stream));
        const auto got = pieces.take(size * kGrain - below(kGrain), &streams[stream]);
        ASSERT_EQ(got.has_value(), expected.has_value()) << "seed " << seed << ", step " << step;
        refused += expected ? 0 : 1;
        if (!expected) continue;
        ASSERT_EQ(*got, *expected * kGrain) << "seed " << seed << ", step " << step;
        out.push_back({*expected, size});
        taken += size;
      }
      ASSERT_EQ(pieces.taken_bytes(), taken * kGrain);
    }
    EXPECT_GT(refused, 0) << "seed " << seed;
  }
}

TEST(TorchPieces, DoNotDependOnWhichStreamsRanksHave) {
  std::mt19937 random(7);
  const Streams one{};
  const Streams two{};
  Pieces a(64 * kGrain);
  Pieces b(64 * kGrain);
  std::vector<std::size_t> out;
  for (int step = 0; step < 5000; ++step) {
    if (out.size() > 4 && random() % 2 == 0) {
      const std::size_t i = random() % out.size();
      ASSERT_TRUE(a.give_back(out[i]));
      ASSERT_TRUE(b.give_back(out[i]));
      out.erase(out.begin() + static_cast<std::ptrdiff_t>(i));
      continue;
    }
    const std::size_t stream = random() % one.size();
    const std::size_t bytes = 1 + random() % (8 * kGrain);
    const auto at = a.take(bytes, &one[stream]);
    ASSERT_EQ(at, b.take(bytes, &two[two.size() - 1 - stream]));
    if (at) out.push_back(*at);
  }
}

TEST(TorchPieces, JoinAgainInAnyOrder) {
  std::array<int, 5> order{0, 1, 2, 3, 4};
  do {
    Pieces pieces(5 * kGrain);
    for (std::size_t i = 0; i < 5; ++i) ASSERT_EQ(pieces.take(kGrain, nullptr), i * kGrain);
    for (const int i : order) ASSERT_TRUE(pieces.give_back(static_cast<std::size_t>(i) * kGrain));
    ASSERT_EQ(pieces.take(5 * kGrain, nullptr), 0U);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(TorchPieces, GivenBackGoToTheirStreamAlone) {
  const Streams streams{};
  Pieces pieces(3 * kGrain);
  ASSERT_EQ(pieces.take(2 * kGrain, &streams[0]), 0U);
  ASSERT_TRUE(pieces.give_back(0));

  EXPECT_EQ(pieces.take(2 * kGrain, &streams[1]), std::nullopt);
  EXPECT_EQ(pieces.take(kGrain, &streams[1]), 2 * kGrain);
  EXPECT_EQ(pieces.take(2 * kGrain, &streams[0]), 0U);
}

TEST(TorchPieces, OfAStreamGrowIntoWhatNoStreamHad) {
  Pieces pieces(3 * kGrain);
  ASSERT_EQ(pieces.take(kGrain, nullptr), 0U);
  ASSERT_TRUE(pieces.give_back(0));

  EXPECT_EQ(pieces.take(3 * kGrain, nullptr), 0U);
}

TEST(TorchPieces, RefuseWhatIsNotThere) {
  Pieces none(kGrain - 1);
  Pieces pieces(2 * kGrain);
  ASSERT_EQ(pieces.take(1, nullptr), 0U);

  EXPECT_EQ(none.take(1, nullptr), std::nullopt);
  EXPECT_EQ(pieces.take(0, nullptr), std::nullopt);
  EXPECT_EQ(pieces.take(~std::size_t{0}, nullptr), std::nullopt);
  EXPECT_EQ(pieces.take(kGrain + 1, nullptr), std::nullopt);
  EXPECT_FALSE(pieces.give_back(kGrain));
  EXPECT_FALSE(pieces.give_back(1));
  EXPECT_TRUE(pieces.give_back(0));
  EXPECT_FALSE(pieces.give_back(0));
  EXPECT_EQ(pieces.taken_bytes(), 0U);
}

}  // namespace
