// SPDX-License-Identifier: Apache-2.0
// `tilelace tune` of layers of experts: tunes the tiles of their products.
#pragma once
#include <CLI/App.hpp>

#include "moe/layer.h"
#include "session.h"
#include "tuning_file.h"

namespace tilelace::cli {

/// Whether the user asks for a layer of experts: by the ops or, if none is given, by the model.
/// Errors: usage (ops of both kinds).
bool tunes_experts(const MoeSizes&);

/// Times tiles, writes the table and returns the exit code. Errors: usage (also options that are
/// only for other ops).
int tune_layers(const CLI::App& command, MoeSizes, const MoeRequest&, const SessionOptions&,
                const TuneRequest&);

}  // namespace tilelace::cli
