// SPDX-License-Identifier: Apache-2.0
// Simulates the steps of all roles. A role takes its next step when the previous one has ended, and
// a wait ends when its flag is raised. Equal arguments give equal outcomes.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "schedule/route.h"
#include "sim/fabric.h"
#include "sim/step.h"

namespace tilelace::sim {

/// Costs of a call's verbs (schedule/verbs.h).
struct Costs {
  std::function<double(int rows)> tile_us;  ///< time of a tile with this many rows
  double row_bytes = 0;                     ///< bytes of a chunk's row (operand or partial)
  double tile_row_bytes = 0;                ///< bytes of a tile's row
  int multiprocessors = 1;                  ///< SMs per worker
  double reduce_gbps = 1;                   ///< rate at which one worker adds partials
  bool spare_senders = false;               ///< true: idle warps send chunks during products
  double launch_us = 0;                     ///< time until workers begin
  double copy_launch_us = 0;                ///< time until the copy role begins
  double end_us = 0;                        ///< time from a rank's last step to the rank's end
  double header_us = 0;                     ///< time to write a header to a peer
  int resident = 1;                         ///< workers of a rank that run at the same time
  schedule::Route route;                    ///< decides the partials per sum and the copies' rate
};

/// Random or uneven behaviour of ranks. The defaults disturb nothing.
struct Disturbance {
  double start_us = 0;    ///< each rank begins up to this much later
  double tile_noise = 0;  ///< a tile takes up to this fraction longer
  int straggler = -1;     ///< the slow rank; -1: none
  double straggle = 1;    ///< factor on the time of the slow rank's tiles
  std::uint64_t seed = 1;

  bool operator==(const Disturbance&) const = default;
};

enum class SpanKind : std::uint8_t { compute, reduce, wait, copy, wire };

/// One interval of time in a lane of a rank. Lane -1 is the copy role; other lanes are workers. For
/// kind `wire`, `rank` is the wire's number and `peer` is the rank that makes the transfer.
struct Span {
  SpanKind kind = SpanKind::compute;
  int rank = 0;
  int lane = 0;
  int peer = -1;  ///< the other rank (compute, reduce: the shard's owner); -1: none
  double begin_us = 0;
  double end_us = 0;

  bool operator==(const Span&) const = default;
};

struct Outcome {
  double end_us = 0;  ///< when the last rank ends
  std::vector<double> rank_end_us;
  std::array<std::int64_t, schedule::kVerbs> verbs{};  ///< number of calls of each verb
  double bytes = 0;                                    ///< bytes sent over wires
  double compute_us = 0;                               ///< computing time of all workers together
  double wait_us = 0;                                  ///< time that workers wait for flags
  double reduce_us = 0;
  double wire_us = 0;     ///< busy time of the busiest wire in a node
  double network_us = 0;  ///< busy time of the busiest NIC
  std::int64_t steps = 0;
  std::string stuck;  ///< empty if the call ended; else which role waits in vain, and for what
  std::vector<Span> spans;

  bool operator==(const Outcome&) const = default;
};

/// lists[rank][role]: the role's steps; role 0 is the copy role. `local`: ranks per node.
Outcome play(const MachineModel&, int local, const Costs&,
             const std::vector<std::vector<StepList>>& lists, const Disturbance& = {},
             bool with_spans = false);

}  // namespace tilelace::sim
