// SPDX-License-Identifier: Apache-2.0
// Tokens of an operand in sections. Tiles begin at the first row of their section.
#pragma once
#include "backend/cuda/device/trace.h"
#include "backend/cuda/kernels/operands.h"
#include "schedule/gemm.h"

namespace tilelace::cuda {

/// `first`: the first token, in the tile's section, that a CTA loads.
template <class Body, class Params>
class SectionTokens {
 public:
  TILELACE_DEVICE SectionTokens(const Params& p, const typename Body::Place& place)
      : p_(p), place_(place) {}

  /// Number of tokens from `first` to the section's end.
  [[nodiscard]] TILELACE_DEVICE int left(schedule::GemmCell cell, int first) const {
    return p_.work.order.end(cell.section) - p_.work.order.begin(cell.section) - first;
  }

  [[nodiscard]] TILELACE_DEVICE int expected_bytes(schedule::GemmCell cell, int first) const {
    if constexpr (Body::kAcross)
      return Body::Tail::expected_bytes(place_, left(cell, first));
    else
      return Body::Shape::kExpectedBytes;
  }
  [[nodiscard]] TILELACE_DEVICE auto source(schedule::GemmCell cell, int first) const {
    const int begin = p_.work.order.begin(cell.section) + first;
    if constexpr (Body::kAcross)
      return TailSource{
          Body::Tail::map(Body::tokens(p_), p_.tail + cell.section, left(cell, first)), begin};
    else
      return TokenSource{Body::tokens(p_), begin};
  }

 private:
  const Params& p_;
  typename Body::Place place_;
};

}  // namespace tilelace::cuda
