// SPDX-License-Identifier: Apache-2.0
// What commands share on options: layout of help, bounds of values, misspelt names, --wide.
#pragma once
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace tilelace::cli {

constexpr std::int64_t kMostSize = std::int64_t{1} << 40;

/// Prints help with plain names of types, default values after descriptions, and lines that fit the
/// terminal.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override;
  std::string make_option_desc(const CLI::Option* option) const override;
};

/// Each checks that an option's value is a number within these bounds; nan is refused.
CLI::Validator whole_between(std::int64_t least, std::int64_t most);
CLI::Validator number_between(double least, double most);

/// Adds --wide, which shows all columns of a table and breaks no lines.
void add_wide_option(CLI::App& command);

/// The arguments, with `help` and `help COMMAND` translated to --help. Errors: usage, with the
/// nearest known name, if a command or an option does not exist or was renamed.
std::vector<std::string> known_arguments(const CLI::App& app, std::vector<std::string> arguments);

}  // namespace tilelace::cli
