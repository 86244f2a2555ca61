// SPDX-License-Identifier: Apache-2.0
// Simulates the roles' steps: a role takes its next step when the one before is over, and a wait
// ends when the flag is raised. Deterministic.
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

/// Costs of a call's verbs.
struct Costs {
  std::function<double(int rows)> tile_us;  ///< GEMM of a tile with this many rows
  double row_bytes = 0;                     ///< row of a chunk: of the operand or the partial
  double tile_row_bytes = 0;                ///< row of a tile
  int multiprocessors = 1;                  ///< SMs per worker
  double reduce_gbps = 1;                   ///< one worker adds partials
  bool spare_senders = false;               ///< idle warps send chunks while others multiply
  double launch_us = 0;                     ///< until workers begin
  double copy_launch_us = 0;                ///< until the copy role begins
  double end_us = 0;                        ///< after a rank's last step
  double header_us = 0;                     ///< writing a header to a peer
  int resident = 1;                         ///< workers of a rank that run at a time
  schedule::Route route;                    ///< says how many children a rank has
};

/// Random or uneven behaviour. All zero: none.
struct Disturbance {
  double start_us = 0;    ///< ranks begin up to this much late
  double tile_noise = 0;  ///< a tile takes up to this share longer
  int straggler = -1;     ///< a slow rank ...
  double straggle = 1;    ///< ... factor on the time of its tiles
  std::uint64_t seed = 1;

  bool operator==(const Disturbance&) const = default;
};

enum class SpanKind : std::uint8_t { compute, reduce, wait, copy, wire };

/// One interval of time. Lanes of a rank: -1 its copy role, then its workers. Kind `wire`: `rank`
/// is the wire, `peer` the sending rank.
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
  double end_us = 0;  ///< end of the last rank
  std::vector<double> rank_end_us;
  std::array<std::int64_t, 20> verbs{};  ///< calls of each verb
  double bytes = 0;                      ///< over wires
  double compute_us = 0;                 ///< over all workers
  double wait_us = 0;                    ///< of workers, for flags
  double reduce_us = 0;
  double wire_us = 0;     ///< on the busiest wire in a node
  double network_us = 0;  ///< on the busiest NIC
  std::string busiest_wire;
  std::int64_t steps = 0;
  std::string stuck;  ///< what is waited for in vain; empty: the call ended
  std::vector<Span> spans;

  bool operator==(const Outcome&) const = default;
};

/// lists[rank][role]: the roles' steps, copy first.
Outcome play(const MachineModel&, int local, const Costs&,
             const std::vector<std::vector<StepList>>& lists, const Disturbance& = {},
             bool with_spans = false);

}  // namespace tilelace::sim
