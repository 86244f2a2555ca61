// SPDX-License-Identifier: Apache-2.0
// Signals that ask this process to end, for commands that must end their children first.
#pragma once
#include <array>
#include <csignal>

namespace tilelace::cli {

/// Thrown when a signal asks this process to end. Functions that started ranks end the ranks first.
struct Interrupted {
  int signal = 0;
};

/// While a guard exists, SIGINT, SIGTERM and SIGHUP are only recorded. Only one guard may exist.
class SignalGuard {
 public:
  SignalGuard();
  ~SignalGuard();
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> old_{};
};

/// The last signal since the guard was made or since the previous call; 0: none.
int take_signal();

}  // namespace tilelace::cli
