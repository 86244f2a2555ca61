// SPDX-License-Identifier: Apache-2.0
// Tables that fit the columns there are: what matters least is left out first.
#pragma once
#include <string>
#include <vector>

#include "row.h"

namespace tilelace::cli {

struct Column {
  std::string title;
  int width = 0;            ///< at least the title's
  bool left = false;        ///< text, not a figure
  int spare = 0;            ///< 0: always shown; else the highest is left out first
  std::string legend = {};  ///< a sentence; may be empty
};

class Table {
 public:
  /// In `columns` characters; 0: all of it. `about`: the legend's first sentence.
  Table(std::vector<Column> columns, std::string about, int characters);
  [[nodiscard]] std::string header() const;
  /// One cell a column, also of those that are left out. Cells that are too wide push the rest
  /// aside; text in the last column goes on in the next line.
  [[nodiscard]] std::string line(const std::vector<std::string>& cells) const;
  /// What the columns that are shown mean, and how to see the others.
  [[nodiscard]] std::string legend() const;

 private:
  [[nodiscard]] int width() const;

  std::vector<Column> columns_;
  std::vector<bool> shown_;
  std::string about_;
  int characters_;
};

/// At most six characters: "0.42", "12.3", "1234", and from a second on "1.23s".
std::string show_us(std::optional<double> us);
/// "+3.1 %", how much longer the standard takes; "-": it was not timed (0).
std::string show_gain(double us, double standard_us);
/// At most six: "0.90", "-12.3", "<-99"; "-" where there is none.
std::string show_efficiency(std::optional<double> e);

/// The width of the widest of these.
int widest(const std::vector<std::string>& texts);

/// The table of run and bench, as wide as this workload's rows need.
Table row_table(const std::vector<Row>& rows, int characters);
std::vector<std::string> row_cells(const Row& row);

/// The table of tune: the fastest plan of each problem, beside the planner's own choice.
Table tune_table(const std::vector<Row>& rows, int characters);
std::vector<std::string> tune_cells(const Row& row);

}  // namespace tilelace::cli
