// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tilelace::check {

enum class FindingKind : std::uint8_t {
  deadlock,        ///< no actor can continue
  race,            ///< two accesses to the same data, one of them a write, that no signal orders
  unwritten,       ///< a read of data that was not written in this call
  moved_twice,     ///< staging memory written twice in a call
  computed_twice,  ///< a result written a second time
  never_computed,  ///< a result missing at the end of the call
  went_back,       ///< a signal that does not increase its flag
  early_result,    ///< a result written before all peers were known to be in the call
  misplaced,       ///< an access outside its region, to part of a cell, or to the wrong rank's data
  out_of_order,    ///< terms of a sum that are missing or not in rank order
  disagree         ///< ranks make different calls
};
std::string_view name_of(FindingKind);

struct Finding {
  FindingKind kind = FindingKind::race;
  std::string text;  ///< starts with the kind's name
};

}  // namespace tilelace::check
