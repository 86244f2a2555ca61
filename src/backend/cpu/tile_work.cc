// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/tile_work.h"

#include <array>
#include <cstddef>

#include "tilelace/op_table.h"

namespace tilelace::cpu {

TileWork tile_work_of(Op op) {
  constexpr TileWork none = nullptr;
  static constexpr std::array rows{none, none, none};
  static_assert(rows.size() == op_table().size());
  return rows.at(static_cast<std::size_t>(op));
}

}  // namespace tilelace::cpu
