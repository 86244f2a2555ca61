// SPDX-License-Identifier: Apache-2.0
// Sizes of models' experts on one of two ranks, which has half of every expert's inner width: those
// of models/moe. NAME/N has N of the experts alone.
#pragma once
#include <cstdint>

namespace tilelace::gpu_test {

struct MoeModel {
  const char* name;
  std::int64_t hidden, inner;  ///< `inner`: the width on one rank, half of the experts' inner width
  std::int64_t experts, top_k;
};
inline constexpr MoeModel kMoeModels[] = {
    {"mixtral-8x7b", 4096, 7168, 8, 2},     {"qwen3-30b-a3b", 2048, 384, 128, 8},
    {"qwen3-235b-a22b", 4096, 768, 128, 8}, {"deepseek-v3/64", 7168, 1024, 64, 8},
    {"gpt-oss-120b", 2880, 1440, 128, 4},   {"olmoe-1b-7b", 2048, 512, 64, 8},
};

}  // namespace tilelace::gpu_test
