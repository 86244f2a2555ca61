// SPDX-License-Identifier: Apache-2.0
// Signals that ask this process to end, for those who have children to end first.
#pragma once
#include <array>
#include <csignal>

namespace tilelace::cli {

/// A signal asked this process to end; its ranks are gone.
struct Interrupted {
  int signal = 0;
};

/// While it lives, SIGINT, SIGTERM and SIGHUP are remembered, not obeyed. One at a time.
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

/// The last one remembered since the guard was made or this was asked; 0 for none.
int take_signal();

}  // namespace tilelace::cli
