// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace tilelace::cuda {

/// How a kernel begins. behind: when the kernel before it has ended. early: under its end; it waits
/// itself (ptx::wait_prerequisites). in_pairs: behind, and two of its CTAs on a TPC
/// (plan/gemm/share.h).
enum class Start : std::uint8_t { behind, early, in_pairs };

}  // namespace tilelace::cuda
