// SPDX-License-Identifier: Apache-2.0
// How ranks compare calls before these begin, and refuse them: for collectives and mixtures of
// experts.
#pragma once
#include <string>
#include <string_view>

#include "backend/prepared_calls.h"
#include "op/impl.h"

namespace tilelace::op {

/// If ranks compare calls (env::compare_calls), words() must be equal on all ranks. If it throws on
/// one, all ranks get that error.
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

/// Replaces a collective that this rank cannot make.
template <class Impl>
void refuse_collective(Impl& impl, const std::string& reason, void* stream) {
  if (impl.compares)
    return agree_on_calls(*impl.group, "refused call", {}, reason, impl.options.timeout_s);
  impl.backend->refuse_collective(reason, stream);
}

}  // namespace tilelace::op
