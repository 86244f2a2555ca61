// SPDX-License-Identifier: Apache-2.0
// All that the ranks of a call must agree on, as bytes. Calls that differ in the problem, a choice
// of the plan, or their kind have different bytes. The call's header contains a hash of the bytes.
#pragma once
#include <cstdint>
#include <string>

#include "tilelace/plan.h"

namespace tilelace::plan {

/// Properties of a call that are neither in the problem nor in the plan.
struct CallKind {
  bool collective = false;  ///< the call is the op's collective without the GEMM
  std::uint64_t out = 0;    ///< GPU ranks: where peers can reach the result; 0: they cannot

  bool operator==(const CallKind&) const = default;
};

/// A call's bytes without predictions. A number has 8 bytes; lists and texts begin with a length.
std::string call_bytes(const Problem&, const Plan&, const CallKind& = {});
/// The bytes of the plan alone.
std::string choice_bytes(const Plan&);

/// A 32-bit hash of all that call_bytes contains; never 0.
std::uint32_t agreement_hash(const Problem&, const Plan&, const CallKind& = {});

}  // namespace tilelace::plan
