// SPDX-License-Identifier: Apache-2.0
// In which order the terms of an own tile are added: by rank, the own one, which is the
// accumulator, in its place among them. Nothing of CUDA's is in here, so that a unit test can be
// any rank.
#pragma once
#include <cstdint>

#include "core/host_device.h"

namespace tilelace::cuda {

/// Whose terms.
struct TermsOf {
  int rank, ranks;
};

/// Partial: kValues of a thread in kPieces of eight, kOfBlock of them in a row of `acc`. Stream:
/// next() gives the peers' terms of the first piece by rank, then those of the second, and so on,
/// each with at(e).
template <class Partial>
struct AddTerms {
  template <class Accumulators>
  TILELACE_ROLE static float& value(Accumulators& acc, int i) {
    return acc[i / Partial::kOfBlock][i % Partial::kOfBlock];
  }

  template <class Accumulators, class Stream>
  TILELACE_ROLE static void piece(TermsOf of, Accumulators& acc, int index, Stream& stream) {
    // As a + b is b + a, only from rank 2 on do terms have a sum before the own one is added.
    const int before = of.rank < 2 ? 0 : of.rank;
    float sum[8] = {};
    TILELACE_NO_UNROLL
    for (int q = 0; q < of.ranks - 1; ++q) {
      const auto term = stream.next();
      if (q < before) {
        TILELACE_UNROLL
        for (int e = 0; e < 8; ++e) sum[e] += term.at(e);
        if (q + 1 < before) continue;
      }
      TILELACE_UNROLL
      for (int e = 0; e < 8; ++e)
        if (8 * index + e < Partial::kValues)
          value(acc, 8 * index + e) += q < before ? sum[e] : term.at(e);
    }
  }
};

}  // namespace tilelace::cuda
