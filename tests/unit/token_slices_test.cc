// SPDX-License-Identifier: Apache-2.0
// What is loaded of a tile's tokens: all that are there, at most seven more, and by no more than
// one length of copies besides the whole one, whatever the tile and the number of tokens.
#include "backend/cuda/kernels/token_slices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plan/gemm_tiles.h"

namespace tilelace::cuda {
namespace {

/// As GemmShape of the kernels.
TokenSlices slices_of(const plan::GemmTile& t) {
  if (!t.swapped) return {t.rows(), t.rows() / t.cluster_cols, t.cluster_cols};
  return {t.width, (t.width / t.cluster_rows + 7) / 8 * 8, t.cluster_rows};
}

void check(const plan::GemmTile& t, int all) {
  const TokenSlices s = slices_of(t);
  const int partial = s.partial(all);
  for (int first = 0; first < all + s.tokens; first += s.tokens) {
    std::vector<bool> loaded(static_cast<std::size_t>(s.tokens));
    int missing = 0;
    for (int i = 0; i < s.count; ++i) {
      const int begin = s.begin(i);
      const int n = s.loaded(all - first - begin);
      ASSERT_TRUE(n == 0 || n == s.slice || n == partial) << t.name << " of " << all;
      ASSERT_EQ(begin % 8, 0);
      ASSERT_LE(begin + n, s.tokens);
      ASSERT_TRUE(n == 0 || first + begin + n < all + 8) << t.name << " of " << all;
      missing += s.slice - n;
      std::fill_n(loaded.begin() + begin, n, true);
    }
    ASSERT_EQ(missing, s.missing(all - first));
    for (int i = 0; i < s.tokens && first + i < all; ++i)
      ASSERT_TRUE(loaded[static_cast<std::size_t>(i)])
          << t.name << " of " << all << ": " << first + i;
  }
}

TEST(TokenSlices, AllThatIsThereIsLoadedAndLittleMore) {
  for (const plan::GemmTile& t : plan::kGemmTiles)
    for (int all = 1; all <= 2 * t.worker_tokens() + 9; ++all) check(t, all);
}

TEST(TokenSlices, AWholeTileTakesWholeCopies) {
  for (const plan::GemmTile& t : plan::kGemmTiles) {
    const TokenSlices s = slices_of(t);
    EXPECT_EQ(s.partial(3LL * s.tokens), 0) << t.name;
    EXPECT_EQ(s.missing(s.tokens), 0) << t.name;
    EXPECT_EQ(s.missing(0), s.count * s.slice) << t.name;
  }
}

}  // namespace
}  // namespace tilelace::cuda
