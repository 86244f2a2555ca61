// SPDX-License-Identifier: Apache-2.0
// Tables for a terminal of 120 columns.
#pragma once
#include <string>
#include <vector>

#include "row.h"

namespace tilelace::cli {

struct Column {
  std::string title;
  int width = 0;      ///< at least the title's
  bool left = false;  ///< text, not a figure
};

class Table {
 public:
  explicit Table(std::vector<Column> columns);
  [[nodiscard]] std::string header() const;
  /// Cells that are too wide push the rest aside.
  [[nodiscard]] std::string line(const std::vector<std::string>& cells) const;

 private:
  std::vector<Column> columns_;
};

/// At most six characters: "0.42", "12.3", "1234", and from a second on "1.23s".
std::string show_us(std::optional<double> us);

/// The table of run and bench, as wide as this workload's rows need.
Table row_table(const std::vector<Row>& rows);
std::vector<std::string> row_cells(const Row& row);
/// What the columns mean.
std::string row_legend();

}  // namespace tilelace::cli
