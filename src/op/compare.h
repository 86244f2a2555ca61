// SPDX-License-Identifier: Apache-2.0
// Compares calls between ranks before they begin, and tells peers of calls that a rank cannot make.
// For collectives and mixtures of experts.
#pragma once
#include <string>
#include <string_view>

#include "backend/prepared_calls.h"
#include "op/impl.h"

namespace tilelace::op {

/// If ranks compare calls (env::compare_calls), requires that words() is equal on all ranks. If
/// words() throws an Error on a rank, the other ranks throw a usage error with the Error's text.
template <class Impl, class Words>
void compare(Impl& impl, std::string_view name, const Words& words) {
  if (!impl.compares) return;
  std::string call, refusal;
  try {
    call = words();
  } catch (const Error& e) {
    refusal = e.what();
  }
  agree_on_calls(*impl.group, name, call, refusal, impl.options.timeout_s);
}

/// Called in place of a collective that this rank cannot make. Tells the peers the reason.
template <class Impl>
void refuse_collective(Impl& impl, const std::string& reason, void* stream) {
  if (impl.compares)
    return agree_on_calls(*impl.group, "refused call", {}, reason, impl.options.timeout_s);
  impl.backend->refuse_collective(reason, stream);
}

}  // namespace tilelace::op
