// SPDX-License-Identifier: Apache-2.0
// The element types with which typed tests are instantiated.
#pragma once
#include <vector>

#include "tilelace/dtype.h"

namespace tilelace {

inline std::vector<DType> all_dtypes() {
  std::vector<DType> types;
  for (const DTypeRow& row : kDTypes) types.push_back(row.type);
  return types;
}

}  // namespace tilelace
