// SPDX-License-Identifier: Apache-2.0
// Compares calls between ranks before the calls begin, and refuses calls. For collectives and
// mixtures of experts.
#pragma once
#include <string>
#include <string_view>

#include "backend/prepared_calls.h"
#include "op/impl.h"

namespace tilelace::op {

/// If ranks compare calls (env::compare_calls), words() must be equal on all ranks. If words()
/// throws on one rank, the other ranks get that error here.
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

/// Takes the place of a collective that this rank cannot make: tells the peers the reason.
template <class Impl>
void refuse_collective(Impl& impl, const std::string& reason, void* stream) {
  if (impl.compares)
    return agree_on_calls(*impl.group, "refused call", {}, reason, impl.options.timeout_s);
  impl.backend->refuse_collective(reason, stream);
}

}  // namespace tilelace::op
