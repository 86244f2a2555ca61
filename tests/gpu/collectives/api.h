// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tilelace::gpu_test {

/// Collectives as users call them: results, ranks that disagree, captures, beside gemms. What is
/// wrong; nothing: all right.
std::vector<std::string> check_api(int ranks, double timeout_s, std::uint64_t seed);

}  // namespace tilelace::gpu_test
