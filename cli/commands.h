// SPDX-License-Identifier: Apache-2.0
// The subcommands. Each adds itself to the app and sets `exit_code` when it was chosen and ran.
#pragma once
#include <CLI/App.hpp>

namespace tilelace::cli {

void add_run(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_plan(CLI::App& app, int& exit_code);
void add_tune(CLI::App& app, int& exit_code);
void add_simulate(CLI::App& app, int& exit_code);
void add_check(CLI::App& app, int& exit_code);
void add_launch(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);

}  // namespace tilelace::cli
