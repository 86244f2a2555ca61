// SPDX-License-Identifier: Apache-2.0
// The width of the output in characters, and text that is broken to fit it.
#pragma once
#include <string>
#include <string_view>

namespace tilelace::cli {

/// The width for tables and texts if nothing else gives one.
constexpr int kColumns = 100;

/// Applies --wide to this process: every column of a table, no broken lines.
void set_wide();
/// COLUMNS from the environment, else the terminal's width if standard output is one, else
/// kColumns. 0 after --wide.
int text_columns();

/// The text with line breaks at blanks, so that no line is longer than `columns` characters unless
/// a single word is. Lines after a break begin with `indent` blanks. `columns` 0: the text
/// unchanged.
std::string filled(std::string_view text, int columns, int indent = 0);
/// Prints a line, broken to text_columns(), to standard output.
void print_filled(std::string_view line);
/// Prints a named part of a plan, broken likewise: "  why      text".
void print_part(std::string_view what, std::string_view text);

}  // namespace tilelace::cli
