// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tilelace::cuda {

/// How a kernel begins. `behind`: when the kernel before it has ended. `early`: overlapping that
/// kernel's end, for which it waits by itself (ptx::wait_prerequisites). `in_pairs`: as `behind`,
/// with two of its CTAs per TPC (plan/gemm/share.h).
enum class Start : std::uint8_t { behind, early, in_pairs };

}  // namespace tilelace::cuda
