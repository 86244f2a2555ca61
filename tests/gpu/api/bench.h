// SPDX-License-Identifier: Apache-2.0
// Checks of ranks that disagree, and of wrong calls, each followed by a call that must work.
#pragma once
#include <fmt/format.h>

#include <string>

#include "api/member.h"

namespace tilelace::gpu_test {

/// A prepared call that works, and ways to make it wrong.
template <class T>
struct Bench {
  using Args = typename T::Args;
  Bench(Member& m, const Problem& problem) : member(m), tensors(m, problem, true) {
    tensors.prepare();
  }
  /// Makes a correct call and checks its results.
  Finding works(const std::string& after) {
    const Finding f = tensors.one_call(++seed);
    return f.empty() ? f : fmt::format("a call after {}: {}", after, f);
  }
  /// All ranks make the same wrong call and must get the same error. Then a correct call must work.
  Finding wrong(const std::string& what, const std::string& text,
                const std::function<void(Args&, PlanOptions&)>& spoil) {
    Args args = tensors.args();
    PlanOptions options;
    spoil(args, options);
    const Finding f = expect_error(fmt::format("{}, {}", name_of(tensors.problem().op), what),
                                   ErrorKind::usage, text, [&] { tensors.call(args, options); });
    return f.empty() ? works(what) : f;
  }

  Member& member;
  T tensors;
  std::uint64_t seed = 0;
};

/// Ranks make different calls. All must get a usage error, write nothing, and refuse later calls.
Finding disagrees(Member& member, const CallOperands& t, const std::function<void()>& call);
/// Rank 0 does not make the call. The others must get an error (timeout or peer) in time, write
/// nothing, and refuse later calls.
Finding misses_a_rank(Member& member, CallOperands& t, double bound_s,
                      const PlanOptions& options = {});

}  // namespace tilelace::gpu_test
