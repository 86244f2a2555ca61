// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tilelace::cuda {

/// When a kernel begins. `behind`: when the previous kernel has ended. `early`: during the end of
/// that kernel, for which it then waits (ptx::wait_prerequisites). `in_pairs`: as `behind`, with
/// CTAs in pairs, each on one TPC (plan/gemm/share.h).
enum class Start : std::uint8_t { behind, early, in_pairs };

}  // namespace tilelace::cuda
