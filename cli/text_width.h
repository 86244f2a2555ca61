// SPDX-License-Identifier: Apache-2.0
// The width of the output in characters, and text that is broken to fit it.
#pragma once
#include <string>
#include <string_view>

namespace tilelace::cli {

/// The width of tables and texts if neither COLUMNS nor a terminal gives one.
constexpr int kColumns = 100;

/// Applies --wide to this process: tables show every column, and lines are not broken.
void set_wide();
/// COLUMNS from the environment, else the terminal's width if standard output is a terminal, else
/// kColumns. 0 after --wide.
int text_columns();

/// The text with line breaks at blanks, so that no line is longer than `columns` characters, except
/// where a single word is longer. Lines after a break begin with `indent` blanks. The text is
/// unchanged if `columns` is 0.
std::string filled(std::string_view text, int columns, int indent = 0);
/// Prints a line, broken to text_columns(), to standard output.
void print_filled(std::string_view line);
/// Prints a named part of a plan, as "  why      text", broken to text_columns().
void print_part(std::string_view what, std::string_view text);

}  // namespace tilelace::cli
