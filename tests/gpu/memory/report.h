// SPDX-License-Identifier: Apache-2.0
// What ranks found, gathered by the parent: a row a check, a JSON line a row.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace tilelace::comm::test {

using Figures = std::map<std::string, double>;

/// One rank's word on one check. In order of weight: ok, wrong, error (the check could not be
/// made).
struct Finding {
  enum class Result { ok, wrong, error };
  std::string check;
  std::string model;
  int rank = 0;
  int ranks = 0;  ///< how many ranks have a word on it
  Result result = Result::ok;
  std::string detail;
  Figures figures;
};

std::string to_line(const Finding& finding);
/// Error: system (no such line).
Finding from_line(const std::string& line);

struct Machine {
  int gpus = 0;
  std::string name;
  std::string driver;
  std::vector<std::string> uuids;
  std::string capabilities;  ///< of all, as text
};

class Report {
 public:
  void add(const Finding& finding);
  /// Of all rows: 0 all is well, 1 something was wrong, 3 a check could not be made.
  [[nodiscard]] int exit_code() const;
  void print() const;
  /// One JSON object a line; "-" is standard output. Error: usage (not writable).
  void write_json(const std::string& file, const Machine& machine, const std::string& commit) const;

 private:
  struct Row {
    Finding::Result result = Finding::Result::ok;
    std::string model;
    std::string check;
    int ranks = 0;
    std::vector<int> heard;  ///< ranks
    std::string detail;      ///< the problems, up to some length
    Figures figures;         ///< maximum over ranks
  };
  [[nodiscard]] std::vector<Row> rows() const;  ///< ranks that said nothing are an error

  std::vector<Row> rows_;
};

}  // namespace tilelace::comm::test
