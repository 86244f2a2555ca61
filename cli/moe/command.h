// SPDX-License-Identifier: Apache-2.0
// `tilelace run` and `bench` of mixtures of experts.
#pragma once
#include <CLI/App.hpp>

#include "moe/layer.h"
#include "session.h"

namespace tilelace::cli {

/// Runs layers, checks and times them; the exit code. Errors: usage (options that mean nothing
/// here, too).
int time_layers(const CLI::App& command, const MoeSizes& sizes, const MoeRequest& request,
                const SessionOptions& session);

}  // namespace tilelace::cli
