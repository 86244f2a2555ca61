// SPDX-License-Identifier: Apache-2.0
// Replaces the file that tools/generate_wgmma.py generates, for emulated GPUs.
#pragma once
#include <cstdint>

#include "machine/bulk.h"
#include "machine/device.h"

namespace tilelace::cuda {

template <class Element, int N>
struct Wgmma {
  static void multiply(float (&d)[N / 2], std::uint64_t a, std::uint64_t b, int keep) {
    emulated::ask_product({d, a, b, keep != 0, run});
  }

 private:
  using Tile = emulated::ProductTile;

  /// An element of a K-major operand with 128-byte swizzle.
  TILELACE_UNWATCHED static float element(const emulated::Cta& cta, std::uint64_t operand,
                                          unsigned row, unsigned k) {
    const std::uint32_t at =
        static_cast<std::uint32_t>((operand & 0x3FFFU) << 4U) + row * 128 + k * 2;
    Element e;
    std::memcpy(&e, cta.at(at ^ ((at >> 7U & 7U) << 4U)), sizeof e);
    return static_cast<float>(e);
  }

  TILELACE_UNWATCHED static void run(emulated::Threads threads, std::size_t i) {
    static auto* const tile = new Tile;  // static, since only the machine's thread uses it
    const emulated::Product& all = threads[0]->products.front()[i];
    emulated::read_operand(threads, i, all.a, Tile::kRows);
    emulated::read_operand(threads, i, all.b, N);
    for (unsigned k = 0; k < Tile::kSteps; ++k) {
      for (unsigned r = 0; r < Tile::kRows; ++r)
        tile->a[r][k] = element(*threads[0]->cta, all.a, r, k);
      for (unsigned c = 0; c < N; ++c) tile->b[k][c] = element(*threads[0]->cta, all.b, c, k);
    }
    emulated::multiply(*tile, N);
    for (unsigned thread = 0; thread < 128; ++thread) {
      const emulated::Product& p = threads[thread]->products.front().at(i);
      if (p.a != all.a || p.b != all.b || p.keep != all.keep) {
        std::fprintf(stderr, "emulated GPUs: threads of a warpgroup with different products\n");
        std::abort();
      }
      add(*tile, p, 16 * (thread / 32) + thread % 32 / 4, 2 * (thread % 4));
    }
  }

  /// Adds a thread's part, which has two elements of `row` and two of row + 8 in every 8 columns.
  TILELACE_UNWATCHED static void add(const Tile& tile, const emulated::Product& p, unsigned row,
                                     unsigned col) {
    for (unsigned c = 0; c < N / 8; ++c)
      for (unsigned half = 0; half < 2; ++half)
        for (unsigned side = 0; side < 2; ++side) {
          float& d = p.d[4 * c + 2 * half + side];
          const float sum = tile.sums[row + 8 * half][8 * c + col + side];
          d = p.keep ? d + sum : sum;
        }
  }
};

}  // namespace tilelace::cuda
