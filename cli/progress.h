// SPDX-License-Identifier: Apache-2.0
// A bar on standard error for what takes more than a second. Where that is no terminal: nothing, or
// a line a step.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>

namespace tilelace::cli {

/// "[#####---------------]  5/20  qkv ag_gemm  3 s"
std::string progress_text(std::int64_t done, std::int64_t total, const std::string& label,
                          double seconds);

class Progress {
 public:
  /// `quiet`: never shows anything. `lines`: a line a step where there is no terminal.
  Progress(std::int64_t total, bool quiet, bool lines = false);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void set(std::int64_t done, std::string label);
  /// Where the total is known only now.
  void set(std::int64_t done, std::int64_t total, std::string label);
  /// Redraws, at most ten times a second, from the first second on.
  void draw();
  /// Takes the bar off the terminal, so that something else can be printed.
  void clear();

 private:
  std::int64_t total_, done_ = 0;
  std::string label_;
  bool shown_, lines_, drawn_ = false;
  double begin_, last_ = 0;
};

}  // namespace tilelace::cli
