// SPDX-License-Identifier: Apache-2.0
// The verbs of schedule/verbs.h as values, so that the steps of a role can be kept in lists.
#pragma once
#include <cstdint>

namespace tilelace::schedule {

enum class Verb : std::uint8_t {
  signal,
  signal_header,
  wait,
  admit,
  compute,
  store,
  stage,
  push,
  pull,
  deliver,
  reduce,
  partial,
  store_partial,
  store_result,
  park,
  unpark,
  send_partial,
  fetch_partial,
  send_result,
  fetch_result,
  put_line,
  take_line
};
constexpr int kVerbs = static_cast<int>(Verb::take_line) + 1;

/// Whether the verb moves bytes from one rank to another.
constexpr bool is_transfer(Verb verb) {
  switch (verb) {
    case Verb::push:
    case Verb::pull:
    case Verb::store_partial:
    case Verb::store_result:
    case Verb::send_partial:
    case Verb::fetch_partial:
    case Verb::send_result:
    case Verb::fetch_result:
    case Verb::put_line: return true;
    case Verb::signal:
    case Verb::signal_header:
    case Verb::wait:
    case Verb::admit:
    case Verb::compute:
    case Verb::store:
    case Verb::stage:
    case Verb::deliver:
    case Verb::reduce:
    case Verb::partial:
    case Verb::park:
    case Verb::unpark:
    case Verb::take_line: break;
  }
  return false;
}

}  // namespace tilelace::schedule
