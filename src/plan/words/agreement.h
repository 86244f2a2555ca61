// SPDX-License-Identifier: Apache-2.0
// What all ranks of a call must agree on. Its bytes are injective: two calls that differ in the
// problem, in a choice of the plan or in their kind have different ones. The word in a call's
// header is their hash.
#pragma once
#include <cstdint>
#include <string>

#include "tilelace/plan.h"

namespace tilelace::plan {

/// What of a call is neither problem nor plan.
struct CallKind {
  bool collective = false;  ///< nothing is multiplied
  std::uint64_t out = 0;    ///< GPU ranks: where peers reach the result; 0: nowhere

  bool operator==(const CallKind&) const = default;
};

/// Eight bytes a number; lists and texts behind their length. Predictions do not count.
std::string call_bytes(const Problem&, const Plan&, const CallKind& = {});
/// Of the plan alone.
std::string choice_bytes(const Plan&);

/// 32-bit hash of call_bytes, not 0.
std::uint32_t agreement_hash(const Problem&, const Plan&, const CallKind& = {});

}  // namespace tilelace::plan
