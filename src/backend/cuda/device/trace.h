// SPDX-License-Identifier: Apache-2.0
// Events that kernels record in builds with TILELACE_TRACE. They tell when tiles begin and end, and
// what kernels wait for. Other builds have neither this code nor its parameters.
#pragma once
#include <cstdint>

#include "core/host_device.h"

namespace tilelace::cuda {

#ifdef TILELACE_TRACE
inline constexpr bool kTraced = true;
#else
inline constexpr bool kTraced = false;
#endif

/// Bytes of shared memory after the kernel's own. They hold the number of events, and for each
/// math group the cycles in which it waited for operands.
inline constexpr int kTraceBytes = kTraced ? 16 : 0;

/// Comments read LANE: EVENT [ARGUMENT]. A lane is a role in the CTA; math has lanes 0 and 1.
enum class TraceKind : std::uint8_t {
  enter,       ///< the CTA begins [multiprocessor]
  ready,       ///< the kernel before this one has ended
  segment,     ///< load: begins to load a tile's operands [tile]
  wait_rows,   ///< load: begins to wait for flags [tile]
  rows_here,   ///< load: rows of these flags are here [tile]
  flag,        ///< load, watch: a flag was seen raised [flag]
  loaded,      ///< load: the last operands of the tile are on their way [tile]
  wait_terms,  ///< load: begins to wait for the peers' terms of a sum [tile]
  term,        ///< load: a peer's term is here [16 * tile + peer]
  terms_here,  ///< load: all peers' terms are here [tile]
  headers,     ///< admit: this rank's headers are sent
  admitted,    ///< admit: all peers' headers are here
  turn,        ///< math: the group may begin the tile's MMAs [tile]
  first,       ///< math: the first operands are here, MMAs begin [tile]
  multiplied,  ///< math: MMAs have ended [cycles without operands]
  summed,      ///< math: peers' terms, or partials of split-k, are added
  allowed,     ///< math: the call is admitted, storing begins (first tiles only)
  written,     ///< math: a partial's stores are issued; copy: a push's stores are issued
  given,       ///< math: a partial is signalled; copy: a push's rows are signalled
  stored,      ///< math: the result's stores are issued
  told,        ///< math: a shared result is signalled
  wait_tile,   ///< load: begins to wait for all shared tiles
  tiles_here,  ///< load: all shared tiles have arrived, or results go to slots (no wait)
  exit,        ///< this lane is done
};

inline constexpr int kLoadLane = 2;
inline constexpr int kAdmitLane = 3;
inline constexpr int kCopyLane = 4;
inline constexpr int kWatchLane =
    5;  ///< an idle warp of one CTA, which polls the flags of all rows
inline constexpr int kTraceLanes = 6;

/// `what`: kind (5 bits), lane (3 bits), argument (24 bits). `cycles` has finer steps than `ns`.
struct TraceEvent {
  std::uint32_t what;
  std::uint32_t cycles;
  std::uint64_t ns;

  [[nodiscard]] TraceKind kind() const { return static_cast<TraceKind>(what >> 27); }
  [[nodiscard]] int lane() const { return static_cast<int>(what >> 24 & 7U); }
  [[nodiscard]] int argument() const { return static_cast<int>(what & 0xFFFFFFU); }
};
static_assert(sizeof(TraceEvent) == 16);

TILELACE_HD constexpr std::uint32_t trace_what(TraceKind kind, int lane, std::uint32_t argument) {
  return static_cast<std::uint32_t>(kind) << 27 | static_cast<std::uint32_t>(lane) << 24 |
         (argument < 0xFFFFFFU ? argument : 0xFFFFFFU);
}

/// CTA c writes its events from events + c * each on, unless `events` is null or c >= `ctas`.
struct TraceSink {
  TraceEvent* events;
  int each, ctas;
};

/// A member of kernels' parameters, absent without traces, since an empty member takes space.
#ifdef TILELACE_TRACE
#define TILELACE_TRACE_SINK TraceSink sink;
#else
#define TILELACE_TRACE_SINK
#endif

}  // namespace tilelace::cuda

#ifdef __CUDACC__
#include "backend/cuda/device/ptx.h"

namespace tilelace::cuda {

/// Records a CTA's events. Called by: one thread of a lane at a time.
class Trace {
 public:
#ifdef TILELACE_TRACE
  template <class Params>
  TILELACE_DEVICE Trace(const Params& p, ptx::Shared words) : sink_(p.sink), words_(words) {}

  /// Called before all else, by one thread; a barrier of the CTA must follow.
  TILELACE_DEVICE void begin(int lane) const {
    for (int i = 0; i < kTraceBytes; i += 4) ptx::store_shared(words_ + i, 0);
    std::uint32_t multiprocessor;
    asm("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    add(TraceKind::enter, lane, static_cast<int>(multiprocessor));
  }
  TILELACE_DEVICE void add(TraceKind kind, int lane, int argument = 0) const {
    if (sink_.events == nullptr || static_cast<int>(blockIdx.x) >= sink_.ctas) return;
    std::uint32_t at;
    asm volatile("atom.shared.add.u32 %0, [%1], 1;" : "=r"(at) : "r"(words_) : "memory");
    if (at >= static_cast<std::uint32_t>(sink_.each)) return;
    std::uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
    TraceEvent* const to = sink_.events + blockIdx.x * sink_.each + at;
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to),
                 "r"(trace_what(kind, lane, static_cast<std::uint32_t>(argument))),
                 "r"(ptx::cycles()), "r"(static_cast<std::uint32_t>(ns)),
                 "r"(static_cast<std::uint32_t>(ns >> 32))
                 : "memory");
  }
  /// Thread 0 adds cycles that its math group waited. No thread branches, since MMAs are in flight.
  TILELACE_DEVICE void starved(int group, int thread, std::uint32_t cycles) const {
    asm volatile(
        "{\n.reg .pred p;\nsetp.eq.u32 p, %0, 0;\n@p red.shared.add.u32 [%1], %2;\n}" ::"r"(thread),
        "r"(words_ + 4 + 4 * group), "r"(cycles)
        : "memory");
  }
  /// A group's cycles without operands since the last call of this function.
  TILELACE_DEVICE int take_starved(int group) const {
    std::uint32_t sum;
    asm volatile("atom.shared.exch.b32 %0, [%1], 0;"
                 : "=r"(sum)
                 : "r"(words_ + 4 + 4 * group)
                 : "memory");
    return static_cast<int>(sum);
  }

 private:
  const TraceSink& sink_;
  ptx::Shared words_;
#else
  template <class Params>
  TILELACE_DEVICE Trace(const Params& /*p*/, ptx::Shared /*words*/) {}
  TILELACE_DEVICE void begin(int /*lane*/) const {}
  TILELACE_DEVICE void add(TraceKind /*kind*/, int /*lane*/, int /*argument*/ = 0) const {}
  TILELACE_DEVICE void starved(int /*group*/, int /*thread*/, std::uint32_t /*cycles*/) const {}
  TILELACE_DEVICE int take_starved(int /*group*/) const { return 0; }
#endif
};

}  // namespace tilelace::cuda
#endif
