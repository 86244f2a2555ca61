// SPDX-License-Identifier: Apache-2.0
// Checks and times one way to move bytes, on a rank.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "backend/cuda/measure/links.h"
#include "backend/cuda/measure/ranks.h"
#include "backend/cuda/rank/wait_control.h"
#include "comm/cuda/device_memory.h"

namespace tilelace::cuda::measure {

/// How the timed rounds follow each other.
enum class Timing : std::uint8_t {
  queue,  ///< in one CUDA graph, without anything in between
  calls,  ///< like queue, with a barrier of all ranks before each round, as in real calls
  host    ///< one at a time, timed by the host's clock, with launch and synchronisation
};

struct Way {
  const char* what;
  Mover mover;
  bool pull;
  Timing timing;
  int ctas;  ///< number of CTAs; 0: copy engine
  std::size_t mib;
  double bar = 0;  ///< GB/s that this way must reach; 0: no minimum
};

struct Measured {
  bool verified = false;
  double wrong_words = 0;
  double us = 0;        ///< time of a round, as the median over samples of the slowest rank's time
  double gb_per_s = 0;  ///< rate per GPU and direction
};

class LinkBench {
 public:
  LinkBench(Rank& rank, std::size_t largest_mib);
  ~LinkBench();
  LinkBench(const LinkBench&) = delete;
  LinkBench& operator=(const LinkBench&) = delete;

  /// Collective; every rank gets the same result.
  Measured run(const Way& way);
  /// Microseconds that a flag takes to the other rank of a pair (2i and 2i + 1) and back.
  double round_trip_us();
  /// Microseconds of a copy of four bytes to a peer, in a sequence of copies.
  double flag_copy_us();

 private:
  void round(const Way& way, Links& l);
  double verify(const Way& way, Links& l);
  double time_graph(const Way& way, Links& l);
  double time_host(const Way& way, Links& l);
  void finish(const char* what) { control_.finish(rank_.stream, what, kMeetSeconds); }

  Rank& rank_;
  WaitControl control_;
  std::shared_ptr<comm::DeviceMemory> memory_;
  std::byte* own_ = nullptr;  // this rank's memory: the barrier's epoch, then counts of wrong words
  Links links_;
  Meeting meeting_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace tilelace::cuda::measure
