// SPDX-License-Identifier: Apache-2.0
// Plays the roles' steps against the machine: a role goes on to its next step when the one before
// is over; who waits goes on when the flag is there. Same input, same output.
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

/// What the verbs of a call cost.
struct Costs {
  std::function<double(int rows)> tile_us;  ///< product of a tile with this many rows
  double row_bytes = 0;                     ///< of a chunk: one row of the operand or the partial
  double tile_row_bytes = 0;                ///< of a tile: one row
  int multiprocessors = 1;                  ///< of a worker
  double reduce_gbps = 1;                   ///< one worker adds partials
  bool spare_senders = false;               ///< its chunks leave beside its products
  double launch_us = 0;                     ///< until workers begin
  double copy_launch_us = 0;                ///< until the copy role begins
  double end_us = 0;                        ///< after a rank's last step
  double header_us = 0;                     ///< a header word written to a peer
  int resident = 1;                         ///< workers of a rank that run at a time
  schedule::Route route;                    ///< who has how many children
};

/// What is random or uneven. All zero: nothing is.
struct Disturbance {
  double start_us = 0;    ///< ranks begin up to this much late
  double tile_noise = 0;  ///< a tile takes up to this share longer
  int straggler = -1;     ///< a rank ...
  double straggle = 1;    ///< ... whose tiles take so many times as long
  std::uint64_t seed = 1;

  bool operator==(const Disturbance&) const = default;
};

enum class SpanKind : std::uint8_t { compute, reduce, wait, copy, wire };

/// One thing that took time. Lanes of a rank: -1 its copy role, then its workers. Kind wire: rank
/// is the wire, peer the sending rank.
struct Span {
  SpanKind kind = SpanKind::compute;
  int rank = 0;
  int lane = 0;
  int peer = -1;  ///< the other side; compute: whose shard
  double begin_us = 0;
  double end_us = 0;

  bool operator==(const Span&) const = default;
};

struct Outcome {
  double end_us = 0;  ///< the last rank's
  std::vector<double> rank_end_us;
  std::array<std::int64_t, 20> verbs{};  ///< calls of each verb
  double bytes = 0;                      ///< over wires
  double compute_us = 0;                 ///< over all workers
  double wait_us = 0;                    ///< of workers, for flags
  double reduce_us = 0;
  double wire_us = 0;     ///< of the busiest wire inside a node
  double network_us = 0;  ///< of the busiest NIC
  std::string busiest_wire;
  std::int64_t steps = 0;
  std::string stuck;  ///< who waits for what that never comes; empty: the call ended
  std::vector<Span> spans;

  bool operator==(const Outcome&) const = default;
};

/// lists[rank][role]: the roles' steps, copy first.
Outcome play(const MachineModel&, int local, const Costs&,
             const std::vector<std::vector<StepList>>& lists, const Disturbance& = {},
             bool with_spans = false);

}  // namespace tilelace::sim
