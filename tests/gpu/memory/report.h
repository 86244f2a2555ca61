// SPDX-License-Identifier: Apache-2.0
// The findings of all ranks, gathered by the parent: a row per check, a JSON line per row.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace tilelace::comm::test {

using Figures = std::map<std::string, double>;

/// One rank's result of one check. In increasing severity: ok, wrong, error (the check could not be
/// made).
struct Finding {
  enum class Result { ok, wrong, error };
  std::string check;
  std::string model;
  int rank = 0;
  int ranks = 0;  ///< number of ranks that report on the check
  Result result = Result::ok;
  std::string detail;
  Figures figures;
};

std::string to_line(const Finding& finding);
/// Parses a line that to_line() made. Error: system (any other line).
Finding from_line(const std::string& line);

struct Machine {
  int gpus = 0;
  std::string name;
  std::string driver;
  std::vector<std::string> uuids;
  std::string capabilities;  ///< capabilities of all devices, as text
};

class Report {
 public:
  void add(const Finding& finding);
  /// 0: all rows are ok; 1: a row is wrong; else 3: a check could not be made.
  [[nodiscard]] int exit_code() const;
  void print() const;
  /// Writes one JSON object per line, as JsonLines does. Error: usage (not writable).
  void write_json(const std::string& file, const Machine& machine, const std::string& commit) const;

 private:
  struct Row {
    Finding::Result result = Finding::Result::ok;
    std::string model;
    std::string check;
    int ranks = 0;
    std::vector<int> heard;  ///< ranks that have reported
    std::string detail;      ///< the problems, up to a limit of length
    Figures figures;         ///< the maximum of each figure over ranks
  };
  [[nodiscard]] std::vector<Row> rows() const;  ///< a rank without a report counts as an error

  std::vector<Row> rows_;
};

}  // namespace tilelace::comm::test
