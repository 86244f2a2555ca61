// SPDX-License-Identifier: Apache-2.0
// `tilelace tune` of layers of experts: the tiles of their products.
#pragma once
#include <CLI/App.hpp>

#include "moe/layer.h"
#include "session.h"
#include "tuning_file.h"

namespace tilelace::cli {

/// Whether a layer of experts is asked for: by an op, or, without one, by the model. Errors: usage
/// (ops of both kinds).
bool tunes_experts(const MoeSizes&);

/// Times tiles and writes the table; the exit code. Errors: usage (options that mean nothing here,
/// too).
int tune_layers(const CLI::App& command, MoeSizes, const MoeRequest&, const SessionOptions&,
                const TuneRequest&);

}  // namespace tilelace::cli
