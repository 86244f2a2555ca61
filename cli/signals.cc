// SPDX-License-Identifier: Apache-2.0
#include "signals.h"

namespace tilelace::cli {
namespace {

volatile std::sig_atomic_t pending_signal = 0;
void remember_signal(int number) { pending_signal = number; }

}  // namespace

SignalGuard::SignalGuard() {
  pending_signal = 0;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction action {};
    action.sa_handler = remember_signal;
    sigaction(kSignals[i], nullptr, &old_[i]);
    if (old_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

SignalGuard::~SignalGuard() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &old_[i], nullptr);
}

int take_signal() {
  const int number = pending_signal;
  if (number != 0) pending_signal = 0;
  return number;
}

}  // namespace tilelace::cli
