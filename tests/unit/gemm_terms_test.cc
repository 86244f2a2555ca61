// SPDX-License-Identifier: Apache-2.0
// The sum of an own tile's terms, as kernels add it, against the plain one, bit for bit: every rank
// of 2 to 9, tiles with an even and an odd number of pieces.
#include "backend/cuda/kernels/gemm_terms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace tilelace::cuda {
namespace {

/// As PartialShape of the kernels.
template <int kBlocks, int kWidth>
struct Partial {
  static constexpr int kOfBlock = kWidth / 2, kValues = kBlocks * kOfBlock;
  static constexpr int kPieces = (kValues + 7) / 8;
};

/// All bits of a fraction: another order is another sum.
float random_float(std::mt19937& random) {
  return static_cast<float>(static_cast<std::int32_t>(random())) *
         std::ldexp(1.0F, -static_cast<int>(random() % 4));
}

/// What all ranks but `rank` have: the value of term q, the own one left out, is terms[q][value].
using Terms = std::vector<std::vector<float>>;

/// In rank order; `own_first`: the mistake that a test must see.
std::vector<float> plain_sum(const Terms& terms, const std::vector<float>& own, int rank,
                             bool own_first) {
  std::vector<float> all(own.size());
  for (std::size_t v = 0; v < own.size(); ++v) {
    float sum = own_first ? own[v] : 0;
    for (int r = 0; r <= static_cast<int>(terms.size()); ++r) {
      if (r == rank && own_first) continue;
      sum += r == rank ? own[v] : terms[static_cast<std::size_t>(r < rank ? r : r - 1)][v];
    }
    all[v] = sum;
  }
  return all;
}

/// Of each piece all terms, one after the other; nobody may read past the last one.
class Stream {
 public:
  explicit Stream(const Terms& terms) : terms_(terms) {}

  struct Piece {
    const float* from;
    [[nodiscard]] float at(int e) const { return from[e]; }
  };
  Piece next() {
    const std::size_t piece = read_ / terms_.size();
    return {&terms_.at(read_++ % terms_.size()).at(8 * piece)};
  }
  [[nodiscard]] std::size_t read() const { return read_; }

 private:
  const Terms& terms_;
  std::size_t read_ = 0;
};

template <class P>
std::vector<float> added(const Terms& terms, std::vector<float> own, int rank) {
  using Add = AddTerms<P>;
  float acc[P::kValues / P::kOfBlock][P::kOfBlock];
  for (int v = 0; v < P::kValues; ++v) Add::value(acc, v) = own[static_cast<std::size_t>(v)];
  Stream stream(terms);
  for (int i = 0; i < P::kPieces; ++i)
    Add::piece({rank, static_cast<int>(terms.size()) + 1}, acc, i, stream);
  EXPECT_EQ(stream.read(), terms.size() * P::kPieces);
  for (int v = 0; v < P::kValues; ++v) own[static_cast<std::size_t>(v)] = Add::value(acc, v);
  return own;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
  });
}

template <class P>
void expect_rank_order() {
  std::mt19937 random(7);
  for (int ranks = 2; ranks <= 9; ++ranks)
    for (int rank = 0; rank < ranks; ++rank) {
      Terms terms(static_cast<std::size_t>(ranks - 1), std::vector<float>(8 * P::kPieces));
      for (auto& term : terms)
        for (float& v : term) v = random_float(random);
      std::vector<float> own(P::kValues);
      for (float& v : own) v = random_float(random);
      const auto expected = plain_sum(terms, own, rank, false);
      ASSERT_TRUE(same_bits(added<P>(terms, own, rank), expected))
          << "rank " << rank << " of " << ranks << ", " << P::kValues << " values";
      EXPECT_EQ(same_bits(plain_sum(terms, own, rank, true), expected), rank < 2)
          << rank << " of " << ranks;
    }
}

TEST(GemmTerms, AreAddedInRankOrder) {
  expect_rank_order<Partial<2, 128>>();
  expect_rank_order<Partial<2, 168>>();  // an odd number of pieces
  expect_rank_order<Partial<2, 184>>();
  expect_rank_order<Partial<2, 80>>();
  expect_rank_order<Partial<1, 128>>();
}

}  // namespace
}  // namespace tilelace::cuda
