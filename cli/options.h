// SPDX-License-Identifier: Apache-2.0
// What the options of all commands have in common: help, bounds, misspelt names, --wide.
#pragma once
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace tilelace::cli {

constexpr std::int64_t kMostSize = std::int64_t{1} << 40;

/// Plain types, defaults behind the sentence, lines that fit.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

/// Bounds of an option's value; nan is outside of all.
CLI::Validator whole_between(std::int64_t least, std::int64_t most);
CLI::Validator number_between(double least, double most);

/// All columns of a table, lines as long as they are.
void add_wide_option(CLI::App& command);

/// `help` and `help COMMAND` as the parser knows them. Errors: usage, naming what comes nearest,
/// where a command or an option is none, or has another name now.
std::vector<std::string> known_arguments(const CLI::App& app, std::vector<std::string> arguments);

}  // namespace tilelace::cli
