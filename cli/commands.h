// SPDX-License-Identifier: Apache-2.0
// The subcommands. Each function adds its command to the app; the command sets `exit_code` when it
// has run.
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
