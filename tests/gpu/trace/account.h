// SPDX-License-Identifier: Apache-2.0
// Where the time of a call goes. From the end of the previous call to the end of this one, every
// moment of every SM is put under one heading. The means over SMs thus add up to the time of the
// call.
#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "timeline.h"

namespace tilelace::gpu_test {

/// Headings in addition to Doing: MMAs that wait, and SMs on which nothing runs.
enum class Idle : std::uint8_t {
  starved_rows,      ///< MMAs wait while the loading warp waits for rows
  starved_operands,  ///< MMAs wait for another reason
  launch,            ///< before the first CTA of the call begins
  tail,              ///< after the last CTA has ended
  between,           ///< between kernels of the call, or any other time
};
inline constexpr int kIdles = 5;
inline constexpr int kHeadings = kDoings + kIdles;
std::string_view heading(int i);

using Account = std::array<double, kHeadings>;  ///< microseconds per call, mean over SMs

/// All spans of one Doing, including time that counts under another heading in CallAccount::share.
struct WaitSum {
  double total_us = 0;  ///< mean over SMs
  double worst_us = 0;  ///< the longest span
  int count = 0;
};

struct Spread {
  double least = 0, median = 0, most = 0;
};
Spread spread_of(std::vector<double> values);

/// A quarter of a call: the tiles whose MMAs began in it, and the waits that began in it.
struct Quarter {
  int tiles = 0;
  double work_us = 0;        ///< MMA time per SM, without waits for operands
  Spread products, starved;  ///< us per tile: MMAs (`products`), waits for operands (`starved`)
  Spread after;              ///< us per tile from the end of MMAs to the last store, flag or sum
  double wait_rows_us = 0, wait_terms_us = 0;  ///< waits of the loading warp, mean over SMs
};

/// A call on one rank.
struct CallAccount {
  double begin_us = 0, us = 0;  ///< the call begins when the previous call ends
  Account share{};
  Spread entered, ready, first_product;  ///< over SMs (`ready`: CTAs), in us since begin_us
  Spread last_product, done;             ///< over SMs, in us before the end of the call
  double tiles = 0;                      ///< tiles per SM
  double mhz = 0;
  std::array<Quarter, 4> quarters{};
  std::array<WaitSum, kDoings> waits{};
};

/// `multiprocessors`: the device's number of SMs, since SMs without work count, too.
CallAccount account_of(const CallLine& call, double begin_us, int multiprocessors);

/// Means over the calls, but maxima of WaitSum::worst_us and of `most` in the quarters' spreads.
CallAccount mean_of(const std::vector<CallAccount>& calls);

}  // namespace tilelace::gpu_test
