// SPDX-License-Identifier: Apache-2.0
// In which order the terms of an own tile are added: by rank, the own one, which is the
// accumulator, in its place among them. Nothing of CUDA's is in here, so that a unit test can be
// any rank.
#pragma once
#include <cstdint>

#include "core/host_device.h"

namespace tilelace::cuda {

/// Whose terms, and how they lie in a step of the ring: all peers' one after the other, by rank.
struct TermsOf {
  int rank, ranks;
  std::uint32_t apart;  ///< bytes from a peer's pieces to the next one's
};

/// Partial: kValues of a thread in kPieces of eight, kOfBlock of them in a row of `acc`, kAtOnce
/// pieces added together, kPieceBytes from one to the next. Piece: load(at), at(e).
template <class Partial, class Piece>
struct AddTerms {
  template <class Accumulators>
  TILELACE_ROLE static float& value(Accumulators& acc, int i) {
    return acc[i / Partial::kOfBlock][i % Partial::kOfBlock];
  }

  /// A piece of the ranks before this one, of which there are two at least.
  template <class Accumulators>
  TILELACE_ROLE static void earlier(const TermsOf& t, Accumulators& acc, int index,
                                    std::uint32_t at) {
    Piece piece, second;
    piece.load(at);
    second.load(at + t.apart);
    float sum[8];
    TILELACE_UNROLL
    for (int e = 0; e < 8; ++e) sum[e] = piece.at(e) + second.at(e);
    TILELACE_NO_UNROLL
    for (int q = 2; q < t.rank; ++q) {
      piece.load(at + static_cast<std::uint32_t>(q) * t.apart);
      TILELACE_UNROLL
      for (int e = 0; e < 8; ++e) sum[e] += piece.at(e);
    }
    TILELACE_UNROLL
    for (int e = 0; e < 8; ++e)
      if (8 * index + e < Partial::kValues) value(acc, 8 * index + e) += sum[e];
  }

  /// The pieces from `first` on that come together, of all peers. As a + b is b + a, only from rank
  /// 2 on do terms have a sum of their own before the own one is added.
  template <class Accumulators>
  TILELACE_ROLE static void pieces(const TermsOf& t, Accumulators& acc, int first,
                                   std::uint32_t at) {
    int q = 0;
    if (t.rank >= 2) {
      TILELACE_UNROLL
      for (int u = 0; u < Partial::kAtOnce; ++u)
        if (first + u < Partial::kPieces)
          earlier(t, acc, first + u, at + static_cast<std::uint32_t>(u * Partial::kPieceBytes));
      q = t.rank;
    }
    TILELACE_NO_UNROLL
    for (; q < t.ranks - 1; ++q) {
      Piece some[Partial::kAtOnce];
      TILELACE_UNROLL
      for (int u = 0; u < Partial::kAtOnce; ++u)
        if (first + u < Partial::kPieces)
          some[u].load(at + static_cast<std::uint32_t>(q) * t.apart +
                       static_cast<std::uint32_t>(u * Partial::kPieceBytes));
      TILELACE_UNROLL
      for (int i = 0; i < 8 * Partial::kAtOnce; ++i)
        if (8 * first + i < Partial::kValues) value(acc, 8 * first + i) += some[i / 8].at(i % 8);
    }
  }
};

}  // namespace tilelace::cuda
