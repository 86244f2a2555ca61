// SPDX-License-Identifier: Apache-2.0
// A progress bar on standard error for work that takes more than a second. If standard error is no
// terminal, no bar is drawn; if `lines` is set, each step then prints a line instead.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>

namespace tilelace::cli {

/// The bar as text: "[#####---------------]  5/20  qkv ag_gemm  3 s".
std::string progress_text(std::int64_t done, std::int64_t total, const std::string& label,
                          double seconds);

class Progress {
 public:
  /// `quiet`: prints nothing. `lines`: prints a line per step if there is no terminal.
  Progress(std::int64_t total, bool quiet, bool lines = false);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void set(std::int64_t done, std::string label);
  /// Also replaces the total, for callers that learn the total only now.
  void set(std::int64_t done, std::int64_t total, std::string label);
  /// Redraws the bar at most ten times a second, beginning after the first second.
  void draw();
  /// Erases the bar, so that other text can be printed.
  void clear();

 private:
  std::int64_t total_, done_ = 0;
  std::string label_;
  bool shown_, lines_, drawn_ = false;
  double begin_, last_ = 0;
};

}  // namespace tilelace::cli
