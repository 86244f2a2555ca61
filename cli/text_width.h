// SPDX-License-Identifier: Apache-2.0
// How many columns output may take, and text that is filled to them.
#pragma once
#include <string>
#include <string_view>

namespace tilelace::cli {

/// What tables and texts fit in unless something says otherwise.
constexpr int kColumns = 100;

/// --wide of this process: every column of a table, lines as long as they are.
void set_wide();
/// COLUMNS, else the width of the terminal where standard output is one, else kColumns. 0: --wide.
int text_columns();

/// The text with line breaks at blanks, so that no line has more than `columns` characters (0: as
/// it is) unless a word has. Lines behind a break begin with `indent` blanks.
std::string filled(std::string_view text, int columns, int indent = 0);
/// A line to standard output, filled to text_columns().
void print_filled(std::string_view line);
/// The same of a part of a plan: "  why      text".
void print_part(std::string_view what, std::string_view text);

}  // namespace tilelace::cli
