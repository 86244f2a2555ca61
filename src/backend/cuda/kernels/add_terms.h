// SPDX-License-Identifier: Apache-2.0
// Adds, in rank order, the terms of a tile that this rank owns. A term is a rank's partial; this
// rank's own term is the accumulator. The code uses nothing of CUDA, so that a unit test can play
// any rank.
#pragma once
#include <cstdint>

#include "core/host_device.h"

namespace tilelace::cuda {

/// Layout of the peers' terms in a stage of the ring. Peers follow each other in rank order.
struct TermsOf {
  int rank, ranks;
  std::uint32_t apart;  ///< bytes from one peer's pieces to the pieces of the next peer
};

/// `Partial`: a thread has kValues values (kOfBlock per row of `acc`) in kPieces pieces of eight.
/// Pieces are kPieceBytes apart; kAtOnce pieces are added together. `Piece` has load() and at().
template <class Partial, class Piece>
struct AddTerms {
  template <class Accumulators>
  TILELACE_ROLE static float& value(Accumulators& acc, int i) {
    return acc[i / Partial::kOfBlock][i % Partial::kOfBlock];
  }

  /// Adds kAtOnce pieces of every peer, from piece `first` on, in rank order. `at`: address of the
  /// first peer's pieces. Ranks 0 and 1 add to their own term directly, since a + b = b + a. Other
  /// ranks begin with the lower ranks' terms, added to -0, which changes no term.
  template <class Accumulators>
  TILELACE_ROLE static void pieces(const TermsOf& t, Accumulators& acc, int first,
                                   std::uint32_t at) {
    const int own_turn = t.rank >= 2 ? t.rank : -1;
    float own[8 * Partial::kAtOnce];
    if (own_turn >= 0)
      each(first, [&](int i, int v) {
        own[i] = value(acc, v);
        value(acc, v) = -0.0F;
      });
    TILELACE_NO_UNROLL
    for (int q = 0;; ++q) {
      if (q == own_turn) each(first, [&](int i, int v) { value(acc, v) += own[i]; });
      if (q == t.ranks - 1) break;
      Piece some[Partial::kAtOnce];
      TILELACE_UNROLL
      for (int u = 0; u < Partial::kAtOnce; ++u)
        if (first + u < Partial::kPieces)
          some[u].load(at + static_cast<std::uint32_t>(q) * t.apart +
                       static_cast<std::uint32_t>(u * Partial::kPieceBytes));
      each(first, [&](int i, int v) { value(acc, v) += some[i / 8].at(i % 8); });
    }
  }

 private:
  /// Calls what(i, v) for each value of kAtOnce pieces. i: index in these pieces; v: in all pieces.
  template <class Do>
  TILELACE_ROLE static void each(int first, const Do& what) {
    TILELACE_UNROLL
    for (int i = 0; i < 8 * Partial::kAtOnce; ++i)
      if (8 * first + i < Partial::kValues) what(i, 8 * first + i);
  }
};

}  // namespace tilelace::cuda
