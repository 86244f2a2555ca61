// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda_support.h"

namespace tilelace {

std::string_view cuda_missing() {
  return "built for sm_90a, schedules only: its kernels are not written yet";
}

}  // namespace tilelace
