// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tilelace::gpu_test {

/// Checks collectives as users call them: results, ranks that disagree, captures, calls beside
/// GEMMs. Returns what is wrong.
std::vector<std::string> check_api(int ranks, double timeout_s, std::uint64_t seed);

}  // namespace tilelace::gpu_test
