// SPDX-License-Identifier: Apache-2.0
// Tables that fit the width of the output. They leave out the least important columns first.
#pragma once
#include <string>
#include <vector>

#include "row.h"

namespace tilelace::cli {

struct Column {
  std::string title;
  int width = 0;      ///< in characters; Table raises it to the title's width
  bool left = false;  ///< true: text, aligned left; false: a number, aligned right
  int spare = 0;      ///< 0: always shown; columns with the highest numbers are left out first
  std::string legend = {};  ///< a sentence; may be empty
};

class Table {
 public:
  /// `characters`: width of the table; 0: all columns. `about`: the legend's first sentence.
  Table(std::vector<Column> columns, std::string about, int characters);
  [[nodiscard]] std::string header() const;
  /// A row of the table. `cells` has one cell per column, also for columns that are left out. A
  /// cell that is too wide shifts the cells after it; text in the last column continues on the next
  /// line.
  [[nodiscard]] std::string line(const std::vector<std::string>& cells) const;
  /// Explains the columns that are shown, and how to see the others.
  [[nodiscard]] std::string legend() const;

 private:
  [[nodiscard]] int width() const;

  std::vector<Column> columns_;
  std::vector<bool> shown_;
  std::string about_;
  int characters_;
};

/// A time in at most six characters: "0.42", "12.3", "1234", and from one second on "1.23s".
std::string show_us(std::optional<double> us);
/// How much longer `standard_us` is than `us`: "+3.1 %"; "-" if `standard_us` is 0 (not timed).
std::string show_gain(double us, double standard_us);
/// An efficiency in at most six characters: "0.90", "-12.3", "<-99"; "-" if absent.
std::string show_efficiency(std::optional<double> e);

/// The width of the widest text.
int widest(const std::vector<std::string>& texts);

/// The table of `run` and `bench`, with columns as wide as these rows need.
Table row_table(const std::vector<Row>& rows, int characters);
std::vector<std::string> row_cells(const Row& row);

/// The table of `tune`: the fastest plan of each problem, beside the planner's own choice.
Table tune_table(const std::vector<Row>& rows, int characters);
std::vector<std::string> tune_cells(const Row& row);

}  // namespace tilelace::cli
