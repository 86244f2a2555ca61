// SPDX-License-Identifier: Apache-2.0
// Events of kernels as what each lane did from when to when. Plain host code.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/base/trace.h"

namespace tilelace::gpu_test {

/// What a lane does. Of all that an SM's lanes do at once, the first of this list counts.
enum class Doing : std::uint8_t {
  multiply,     ///< math
  send,         ///< math: a partial leaves, at its pace
  publish,      ///< math: until a partial is signalled
  store,        ///< math: the result is staged and stored
  share,        ///< math: until a shared result is signalled
  wait_terms,   ///< load: for the peers' terms
  add_terms,    ///< math: their way through the ring, the sums
  admission,    ///< math: for the peers' headers
  wait_rows,    ///< load: for rows
  operands,     ///< math: for the first operands of a tile
  turn,         ///< math: for the other group
  finish,       ///< math: until the last stores have read shared memory
  wait_shared,  ///< copy, load: for tiles that peers share
  copy,         ///< copy
  before,       ///< load, copy: for the kernel before this one
  load,         ///< load
  headers,      ///< admit
};
inline constexpr int kDoings = 17;
std::string_view name_of(Doing doing);

struct Span {
  Doing doing = Doing::load;
  int lane = 0;
  int tile = -1;
  double begin_us = 0, end_us = 0;
  double starved_us = 0;  ///< of multiply: without operands
};

/// When a CTA saw that a flag had been raised.
struct Landing {
  int flag = 0;  ///< of a term: 16 * tile + source
  double us = 0;
  bool waited = false;  ///< it was not there when the wait began
};

struct CtaLine {
  int multiprocessor = 0;
  double begin_us = 0, ready_us = 0, end_us = 0;
  double mhz = 0;  ///< of the SM's clock
  std::vector<Span> spans;
  std::vector<Landing> landings;
  std::vector<Landing> watched;  ///< by a warp that looks all the time
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

/// How fine %globaltimer is: the smallest step between its stamps, ns.
double resolution_ns(const std::vector<cuda::TracedLaunch>& launches);

/// The launches of `calls` calls, in order. Microseconds since `origin_ns`. Where the clock of
/// nanoseconds is coarse, the SM's own is laid through its stamps. Error: usage (launches that
/// `calls` does not divide).
std::vector<CallLine> call_lines(const std::vector<cuda::TracedLaunch>& launches, int calls,
                                 std::uint64_t origin_ns);

}  // namespace tilelace::gpu_test
