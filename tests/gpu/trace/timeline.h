// SPDX-License-Identifier: Apache-2.0
// Turns kernels' events into intervals of what each lane (a warp or group with a role) did.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/base/trace.h"

namespace tilelace::gpu_test {

/// What lanes with these roles do. If an SM does several things at once, the first listed counts.
enum class Doing : std::uint8_t {
  multiply,     ///< math: MMAs
  send,         ///< math: sends a partial in pieces, with pauses
  publish,      ///< math, copy: waits until a partial or pushed rows are signalled
  store,        ///< math: stages and stores the result
  share,        ///< math: waits until a result for all ranks is signalled
  wait_terms,   ///< load: waits for peers' partials (terms)
  add_terms,    ///< math: waits for terms in shared memory, and adds them
  admission,    ///< math, admit: waits for peers' headers
  wait_rows,    ///< load: waits for rows
  operands,     ///< math: waits for the first operands of a tile
  turn,         ///< math: waits for the other warpgroup (ping-pong)
  finish,       ///< math: waits until the last stores have read shared memory
  wait_shared,  ///< copy, load: waits for finished tiles of peers
  copy,         ///< copy: copies data
  before,       ///< load, copy, math: waits for the previous kernel
  load,         ///< load: loads operands
  headers,      ///< admit: sends headers, which announce the call to peers
};
inline constexpr int kDoings = 17;
std::string_view name_of(Doing doing);

struct Span {
  Doing doing = Doing::load;
  int lane = 0;
  int tile = -1;
  double begin_us = 0, end_us = 0;
  double starved_us = 0;  ///< multiply: the time in which MMAs waited for operands
};

/// The time at which a CTA saw a raised flag.
struct Landing {
  int flag = 0;  ///< number of the flag; for a term, 16 * tile + source
  double us = 0;
  bool waited = false;  ///< whether the flag was raised after the wait began
};

struct CtaLine {
  int multiprocessor = 0;
  double begin_us = 0, ready_us = 0, end_us = 0;
  double mhz = 0;  ///< frequency of the SM's clock
  std::vector<Span> spans;
  std::vector<Landing> landings;
  std::vector<Landing> watched;  ///< flags, as seen by a warp that polls all the time
};

struct LaunchLine {
  std::string kernel;
  std::vector<CtaLine> ctas;
  double begin_us = 0, end_us = 0;
};

/// All launches of one call.
struct CallLine {
  std::vector<LaunchLine> launches;
  double end_us = 0;
};

/// The resolution of %globaltimer: the smallest step between its stamps, in ns.
double resolution_ns(const std::vector<cuda::TracedLaunch>& launches);

/// The launches of `calls` calls, in order, with times in us since `origin_ns`. If the nanosecond
/// clock is coarse, times are those of the SM's clock, fitted to the coarse stamps. Error: usage
/// (the number of launches is not a multiple of `calls`).
std::vector<CallLine> call_lines(const std::vector<cuda::TracedLaunch>& launches, int calls,
                                 std::uint64_t origin_ns);

}  // namespace tilelace::gpu_test
