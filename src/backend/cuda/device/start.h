// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tilelace::cuda {

/// When a kernel begins. `behind`: after the previous kernel has ended. `early`: while the previous
/// kernel is ending; the new kernel itself awaits that end (ptx::wait_prerequisites). `in_pairs`:
/// like `behind`, but each pair of CTAs is on one TPC (plan/gemm/share.h).
enum class Start : std::uint8_t { behind, early, in_pairs };

}  // namespace tilelace::cuda
