// SPDX-License-Identifier: Apache-2.0
// `tilelace tune` of layers of experts: times tile shapes for both products of a layer.
#pragma once
#include <CLI/App.hpp>

#include "moe/layer.h"
#include "session.h"
#include "tuning_file.h"

namespace tilelace::cli {

/// Whether the user asks for a layer of experts: by the ops or, if none is given, by the model.
/// Errors: usage (ops of both kinds).
bool tunes_experts(const MoeSizes&);

/// Times tile shapes, writes the table and returns the exit code. Errors: usage (also if options
/// are given that only other ops have).
int tune_layers(const CLI::App& command, MoeSizes, const MoeRequest&, const SessionOptions&,
                const TuneRequest&);

}  // namespace tilelace::cli
