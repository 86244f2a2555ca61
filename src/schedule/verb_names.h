// SPDX-License-Identifier: Apache-2.0
// The verbs of schedule/verbs.h as values, for those who keep the steps of a role in lists.
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
  fetch_result
};

}  // namespace tilelace::schedule
