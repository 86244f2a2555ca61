// SPDX-License-Identifier: Apache-2.0
// `tilelace bench` of mixtures of experts.
#pragma once
#include <CLI/App.hpp>

#include "moe/layer.h"
#include "session.h"

namespace tilelace::cli {

/// Runs it; the exit code. Errors: usage (options that mean nothing here, too).
int bench_moe(const CLI::App& command, const MoeSizes& sizes, const MoeRequest& request,
              const SessionOptions& session);

}  // namespace tilelace::cli
