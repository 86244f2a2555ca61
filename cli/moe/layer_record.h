// SPDX-License-Identifier: Apache-2.0
// Records of layers of experts, "tilelace.moe/1".
#pragma once
#include <cstdint>
#include <string>

#include "json_values.h"
#include "moe/measure.h"
#include "tilelace/tune.h"

namespace tilelace::cli {

/// The fields that all records of layers have.
Json layer_json(const MoeWork&, const std::string& op, std::int64_t m);
/// The record of a measured layer.
std::string moe_record(const MoeWork&, const MoeTimes&);
/// The record of a product of experts, with all kinds of tiles that were timed.
std::string tiles_record(const MoeWork&, const TunedExperts&);

}  // namespace tilelace::cli
