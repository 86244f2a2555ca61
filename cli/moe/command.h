// SPDX-License-Identifier: Apache-2.0
// `tilelace run` and `bench` of mixtures of experts.
#pragma once
#include <CLI/App.hpp>

#include "moe/layer.h"
#include "session.h"

namespace tilelace::cli {

/// Runs, checks and times layers of experts and returns the exit code. Errors: usage (also if
/// options are given that only other ops have).
int time_layers(const CLI::App& command, const MoeSizes& sizes, const MoeRequest& request,
                const SessionOptions& session);

}  // namespace tilelace::cli
