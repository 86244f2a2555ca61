// SPDX-License-Identifier: Apache-2.0
#include "text_width.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "core/env.h"

namespace tilelace::cli {
namespace {

bool wide = false;

/// 0: no number.
int columns_of_environment() {
  const std::string all = env::columns().value_or("");
  int value = 0;
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), value);
  return error == std::errc{} && end == all.data() + all.size() ? std::max(0, value) : 0;
}

int columns_of_terminal() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

void set_wide() { wide = true; }

int text_columns() {
  if (wide) return 0;
  if (const int columns = columns_of_environment(); columns > 0) return columns;
  const int columns = columns_of_terminal();
  return columns > 0 ? columns : kColumns;
}

std::string filled(std::string_view text, int columns, int indent) {
  if (columns <= 0) return std::string(text);
  const auto most = static_cast<std::size_t>(columns);
  const std::string blanks(static_cast<std::size_t>(indent), ' ');
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const bool ends = end < text.size();
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    std::string head;
    while (head.size() + line.size() > most) {
      // The last blank that leaves a line short enough, else the first behind a long word; those in
      // front of the first word are no place for a break.
      const std::size_t word = std::min(line.find_first_not_of(' '), line.size());
      std::size_t cut = line.rfind(' ', most > head.size() ? most - head.size() : 0);
      if (cut == std::string_view::npos || cut < word) cut = line.find(' ', word);
      if (cut == std::string_view::npos) break;
      out += head;
      out += line.substr(0, line.find_last_not_of(' ', cut) + 1);
      out += '\n';
      line.remove_prefix(std::min(line.find_first_not_of(' ', cut), line.size()));
      head = blanks;
    }
    out += head;
    out += line;
    if (ends) out += '\n';
  }
  return out;
}

void print_part(std::string_view what, std::string_view text) {
  fmt::print("{}\n", filled(fmt::format("  {:<8} {}", what, text), text_columns(), 11));
}

void print_filled(std::string_view line) { fmt::print("{}\n", filled(line, text_columns())); }

}  // namespace tilelace::cli
