// SPDX-License-Identifier: Apache-2.0
// Random matrices in which a value depends only on its place, so that a shard is a slice of the
// whole.
#pragma once
#include <cstdint>
#include <string_view>

#include "tilelace/tensor.h"

namespace tilelace::model {

/// The key of a random stream: different for each seed and name.
std::uint64_t random_key(std::uint64_t seed, std::string_view name);

/// view[i][j] = scale * (a random number that depends on key, row0 + i and col0 + j alone). Random
/// numbers are sums of four uniforms, with mean 0, standard deviation 1 and range -3.47..3.47.
void fill_random(const TensorView& view, std::uint64_t key, std::int64_t row0, std::int64_t col0,
                 float scale);

}  // namespace tilelace::model
