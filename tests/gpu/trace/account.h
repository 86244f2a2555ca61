// SPDX-License-Identifier: Apache-2.0
// Where the time of a call goes: from the end of the call before to its own end, every moment of
// every SM is put under one heading, so that the mean over the SMs adds up to the time of the call.
#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "timeline.h"

namespace tilelace::gpu_test {

/// Beyond the Doings: products that stand still, and SMs on which nothing runs.
enum class Idle : std::uint8_t {
  starved_rows,      ///< within products, while the loading warp waits for rows
  starved_operands,  ///< within products, other
  launch,            ///< before the first CTA of the call is there
  tail,              ///< after the last one is gone
  between,           ///< between kernels of the call, or nothing else of this list
};
inline constexpr int kIdles = 5;
inline constexpr int kHeadings = kDoings + kIdles;
std::string_view heading(int i);

using Account = std::array<double, kHeadings>;  ///< us a call, mean over SMs

/// A kind of wait, exposed or not: what the lane itself saw.
struct WaitSum {
  double total_us = 0;  ///< mean over SMs
  double worst_us = 0;  ///< the longest one
  int count = 0;
};

struct Spread {
  double least = 0, median = 0, most = 0;
};
Spread spread_of(std::vector<double> values);

/// Tiles whose products began in a quarter of the call.
struct Quarter {
  int tiles = 0;
  double work_us = 0;        ///< of each SM: products, without being starved
  Spread products, starved;  ///< us a tile
  Spread after;              ///< us from the end of the products to the last store, flag or sum
  double wait_rows_us = 0, wait_terms_us = 0;  ///< of the loading warp, mean over SMs
};

/// A call on one rank.
struct CallAccount {
  double begin_us = 0, us = 0;  ///< from the end of the call before
  Account share{};
  Spread entered, ready, first_product;  ///< of the SMs, us since the begin
  Spread last_product, done;             ///< of the SMs, us before the end
  double tiles = 0;                      ///< an SM
  double mhz = 0;
  std::array<Quarter, 4> quarters{};
  std::array<WaitSum, kDoings> waits{};
};

/// `multiprocessors` of the device: those without work count, too.
CallAccount account_of(const CallLine& call, double begin_us, int multiprocessors);

/// Mean, heading by heading, and the medians and worsts of the calls' medians and worsts.
CallAccount mean_of(const std::vector<CallAccount>& calls);

}  // namespace tilelace::gpu_test
