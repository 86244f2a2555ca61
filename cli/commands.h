// SPDX-License-Identifier: Apache-2.0
// The subcommands. Each adds itself to the app and sets `exit_code` when it was chosen and ran.
#pragma once
#include <fmt/core.h>

#include <CLI/App.hpp>
#include <string>

namespace tilelace::cli {

/// CLI::Range, which nan passes, since it is neither below nor above, without that.
inline CLI::Validator number_between(double least, double most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    double value = 0;
    const bool good = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    return good ? "" : fmt::format("Value {} not in range {} to {}", text, least, most);
  };
  return CLI::Validator(check, fmt::format("FLOAT in [{} - {}]", least, most));
}

void add_run(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_plan(CLI::App& app, int& exit_code);
void add_tune(CLI::App& app, int& exit_code);
void add_simulate(CLI::App& app, int& exit_code);
void add_check(CLI::App& app, int& exit_code);
void add_launch(CLI::App& app, int& exit_code);
void add_doctor(CLI::App& app, int& exit_code);

}  // namespace tilelace::cli
