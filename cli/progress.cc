// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

#include "machine.h"

namespace tilelace::cli {
namespace {

constexpr int kBar = 20;
constexpr double kQuietSeconds = 1, kRedrawSeconds = 0.1;

}  // namespace

std::string progress_text(std::int64_t done, std::int64_t total, const std::string& label,
                          double seconds) {
  const std::int64_t full = total > 0 ? std::min<std::int64_t>(kBar, done * kBar / total) : 0;
  return fmt::format("[{:#<{}}{:-<{}}] {:>{}}/{}  {}  {:.0f} s", "", full, "", kBar - full, done,
                     fmt::format("{}", total).size(), total, label, seconds);
}

Progress::Progress(std::int64_t total, bool quiet, bool lines)
    : total_(total),
      shown_(!quiet && isatty(STDERR_FILENO) == 1),
      lines_(!quiet && lines && !shown_),
      begin_(seconds_now()) {}

void Progress::set(std::int64_t done, std::string label) {
  done_ = done;
  label_ = std::move(label);
  if (lines_) {
    fmt::print(stderr, "{}/{}  {}  {:.1f} s\n", done_, total_, label_, seconds_now() - begin_);
    std::fflush(stderr);
  }
  draw();
}

void Progress::set(std::int64_t done, std::int64_t total, std::string label) {
  total_ = total;
  set(done, std::move(label));
}

void Progress::draw() {
  const double now = seconds_now();
  if (!shown_ || now - begin_ < kQuietSeconds || now - last_ < kRedrawSeconds) return;
  fmt::print(stderr, "\r\x1b[K{}", progress_text(done_, total_, label_, now - begin_));
  std::fflush(stderr);
  last_ = now;
  drawn_ = true;
}

void Progress::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
  last_ = 0;
}

}  // namespace tilelace::cli
