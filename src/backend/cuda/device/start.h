// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tilelace::cuda {

/// When a kernel begins. `behind`: when the previous kernel has ended. `early`: while that kernel
/// is ending; the new kernel awaits the end itself (ptx::wait_prerequisites). `in_pairs`: as
/// `behind`, with CTAs in pairs, each pair on one TPC (plan/gemm/share.h).
enum class Start : std::uint8_t { behind, early, in_pairs };

}  // namespace tilelace::cuda
