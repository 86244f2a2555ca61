// SPDX-License-Identifier: Apache-2.0
// The sum of an own tile's terms, as kernels add it, against the plain one, bit for bit: every rank
// of 2 to 9, tiles and types whose steps hold as few pieces as they may.
#include "backend/cuda/kernels/add_terms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "backend/cuda/kernels/sm90/shape.h"
#include "plan/gemm_tiles.h"

namespace tilelace::cuda {
namespace {

constexpr int kThreadBytes = 128 * 16;  // from a thread's 16 bytes to its next ones

/// A step of the ring, as far as one thread reads it; nobody may read what was not filled.
std::vector<float> step_of_ring;

struct Piece {
  const float* from = nullptr;
  void load(std::uint32_t at) { from = &step_of_ring.at(at / kThreadBytes * 8); }
  [[nodiscard]] float at(int e) const { return from[e]; }
};

/// As PartialShape of the kernels.
template <int kBlocks, int kWidth, bool kPingpong>
struct Partial {
  static constexpr int kOfBlock = kWidth / 2, kValues = kBlocks * kOfBlock;
  static constexpr int kPieces = (kValues + 7) / 8, kPieceBytes = kThreadBytes;
  static constexpr int kAtOnce = plan::terms_at_once(kWidth, kPingpong);
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

template <class P>
std::vector<float> added(const Terms& terms, std::vector<float> own, int rank, int step_pieces) {
  using Add = AddTerms<P, Piece>;
  const int ranks = static_cast<int>(terms.size()) + 1;
  const TermsOf of{rank, ranks, static_cast<std::uint32_t>(step_pieces * P::kPieceBytes)};
  float acc[P::kValues / P::kOfBlock][P::kOfBlock];
  for (int v = 0; v < P::kValues; ++v) Add::value(acc, v) = own[static_cast<std::size_t>(v)];
  for (int i = 0; i < P::kPieces; i += P::kAtOnce) {
    const int first = i / step_pieces * step_pieces;
    step_of_ring.assign(static_cast<std::size_t>(8 * step_pieces * (ranks - 1)), NAN);
    for (std::size_t q = 0; q < terms.size(); ++q)
      for (int v = 0; v < 8 * std::min(step_pieces, P::kPieces - first); ++v)
        step_of_ring[q * static_cast<std::size_t>(8 * step_pieces) + static_cast<std::size_t>(v)] =
            terms[q][static_cast<std::size_t>(8 * first + v)];
    Add::pieces(of, acc, i, static_cast<std::uint32_t>((i - first) * P::kPieceBytes));
  }
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
      for (int pieces = P::kAtOnce; pieces < P::kPieces + P::kAtOnce; pieces += 3 * P::kAtOnce)
        ASSERT_TRUE(same_bits(added<P>(terms, own, rank, pieces), expected))
            << "rank " << rank << " of " << ranks << ", " << pieces << " pieces a step, "
            << P::kValues << " values";
      EXPECT_EQ(same_bits(plain_sum(terms, own, rank, true), expected), rank < 2)
          << rank << " of " << ranks;
    }
}

/// Whether a group that waits for all terms before it lets go of its last stage ever gets them.
bool terms_come(int k_steps, int term_steps, int stages) {
  int loaded = 0, released = 0;
  const auto load = [&] { loaded = std::min(k_steps + term_steps, released + stages); };
  for (int step = 0; step < k_steps; ++step) {
    load();
    if (step >= loaded) return false;
    released = step;  // the one before: this one's products are still under way
  }
  load();
  return loaded == k_steps + term_steps;
}

TEST(GemmTerms, AreWaitedForOnlyWhereTheRingHasRoomForAll) {
  for (int stages = 2; stages <= 9; ++stages)
    for (int k_steps = 1; k_steps <= 12; ++k_steps)
      for (int term_steps = 1; term_steps <= 12; ++term_steps)
        EXPECT_EQ(steps_fit_ring(term_steps, stages), terms_come(k_steps, term_steps, stages))
            << k_steps << " steps, terms " << term_steps << ", stages " << stages;
}

TEST(GemmTerms, AreAddedInRankOrderWhereGroupsTakeTurns) {
  expect_rank_order<Partial<2, 128, true>>();
  expect_rank_order<Partial<2, 168, true>>();  // an odd number of pieces
  expect_rank_order<Partial<2, 184, true>>();
  expect_rank_order<Partial<2, 80, true>>();
}

TEST(GemmTerms, AreAddedInRankOrderByGroupsTogether) {
  expect_rank_order<Partial<1, 128, false>>();
  expect_rank_order<Partial<1, 160, false>>();
}

}  // namespace
}  // namespace tilelace::cuda
