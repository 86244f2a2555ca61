// SPDX-License-Identifier: Apache-2.0
// A machine for the simulator: constants of the hardware and its libraries. No constant depends on
// a shape. Rates are in GB/s (1e9 bytes), rates of GEMMs in TFLOP/s, times in microseconds. Machine
// files have the values, each with its source; defaults here are 1 for a rate and 0 for a time.
#pragma once
#include <cstdint>
#include <string>

namespace tilelace::sim {

/// One device. A tile on one SM takes the longer of its tensor-core and L2 times; a GEMM takes at
/// least as long as power and memory require.
struct Compute {
  double multiprocessors = 1;
  double peak_tflops = 1;   ///< rate of all SMs at full clock
  double efficiency = 1;    ///< fraction of the peak that a main loop reaches
  double l2_gbps = 1;       ///< rate from L2 into one SM
  double power_tflops = 1;  ///< rate of a long GEMM at the power limit
  double memory_gbps = 1;
  double fixed_us = 0;  ///< time of the launch, the first loads and the last stores
  double tile_us = 0;   ///< time of a 128x256 tile's epilogue that overlaps with nothing
  double clock_boost =
      1;  ///< clock under light load / clock of a GEMM at the power limit; 1: constant clock
  double capability = 0;  ///< compute capability, 90 for 9.0; 0: there are no kernels for it
};

/// Figures of Tilelace's own kernels, for the planner's predictions (explained in
/// plan/base/hardware.h).
struct Kernels {
  double efficiency = 1;
  double alone_gbps = 1;
  double l2_total_gbps = 1;
  double l2_mb = 1;
  double memory_gbps = 1;
  double worker_memory_gbps = 1;
  double power_tflops = 1;
  double power_l2_gbps = 1;
  double power_memory_gbps = 1;
  double fixed_us = 0;
  double worker_flag_us = 0;
  double step_us = 0;
  double tile_us = 0;
  double call_us = 0;
  double fetch_gbps = 1;
  double spilled_gbps = 1;
};

enum class Topology : std::uint8_t {
  all_to_all,  ///< each rank has a port into a switch
  tree         ///< PCIe: ports behind shared uplinks, two halves joined by a socket link
};

/// Links between the ranks of a node. Rates are per rank and direction unless a comment says
/// otherwise.
struct Links {
  Topology topology = Topology::all_to_all;
  double push_gbps = 1;          ///< a copy engine writes to a peer
  double mesh_gbps = 1;          ///< a copy engine of every rank writes to several peers in turn
  double pull_gbps = 1;          ///< a copy engine reads from a peer
  double store_gbps = 1;         ///< all SMs together write to peers
  double store_worker_gbps = 1;  ///< one SM writes to peers
  double latency_us = 0;         ///< one-way time of a flag
  double copy_us = 0;            ///< time of a copy of no bytes
  double flag_us = 0;            ///< extra time of a flag that a copy engine sends
  double copy_engines = 1;       ///< tree: 2 if copies across uplinks run beside other copies
  double local_gbps = 1;         ///< rate of a copy inside a device
  double power_share = 0;        ///< power of a busy link, as a fraction of a GEMM's power
  double ranks_per_uplink = 1;   ///< tree: ranks behind an uplink
  double uplink_gbps = 1;        ///< tree: rate of an uplink in each direction, shared by its ranks
  double socket_gbps = 1;        ///< tree: rate between sockets per direction, shared by all ranks
  double socket_flag_us = 0;     ///< tree: extra time of a flag across the sockets
};

/// The network between nodes. nics = 0: there is no network.
struct Network {
  double nics = 0;  ///< NICs per node
  double nic_gbps = 1;
  double latency_us = 0;
  double message_us = 0;  ///< time of a transfer of no bytes
};

/// Costs of a library's collective. Its time is fixed_us + ramp_us * sqrt(MB on the wire) + bytes /
/// (rate of the slowest wire or NIC) + network latencies + the time of copying the own shard.
/// The square root stands for a pipeline whose pieces grow with the size.
struct Collective {
  double fixed_us = 0;
  double ramp_us = 0;
};

struct Collectives {
  Collective all_gather, reduce_scatter, all_reduce;
  double wire_gbps = 1;        ///< rate between ranks; tree: rate between ranks of one socket
  double socket_gbps = 1;      ///< tree: rate of a ring across the sockets
  double window_fixed_us = 0;  ///< fixed time of an all-gather that stores to registered
                               ///< memory (at links.store_gbps); 0: no such all-gather
  double power_share = 0;      ///< power of a collective, as a fraction of a GEMM's power
};

/// Costs of one implementation of the ops.
struct Method {
  std::string name = "tilelace";
  double own_kernels = 0;    ///< 1: plans of src/plan are simulated, if the device has kernels
  double fused_call_us = 0;  ///< extra time, unless a kernel starts before the previous kernel ends
  double product_rate = 1;   ///< speed of the method's GEMM relative to the library's
  double sum_gbps = 1;       ///< own kernels: rate at which one SM adds peers' partials
  double unfused_call_us = 0;     ///< time that a framework adds between collective and GEMM
  double fused_tile_rows = 1;     ///< the fewest rows of a tile
  double fused_reduce_cols = 0;   ///< gemm_rs, gemm_ar: the only tile width; 0: any
  double fused_whole_shards = 0;  ///< 1: ag_gemm copies whole shards by copy engines
  double fused_pads = 0;          ///< 1: gemm_rs, gemm_ar pad each rank's rows to whole tiles
  double medium_direct = 0;       ///< 1: medium (a GEMM per shard) sends no partials around rings
  double medium_call_us = 0;      ///< medium: time to fork and join streams
  double medium_stage_us = 0;     ///< medium: time between two GEMMs
};

/// For mixtures of experts: rates of the passes that are not GEMMs, and the known error of
/// predicted layers.
struct Experts {
  double permute_gbps = 1;      ///< rate of ordering rows by expert (bytes read and written)
  double map_pairs_per_us = 1;  ///< (token, slot) pairs per microsecond, in making maps
  double error_percent = 0;     ///< the largest error of a predicted layer
  std::string text;             ///< what was compared; always printed
};

/// Error of predictions against measurements, in percent of the measured time.
struct KnownError {
  double median_percent = 0;
  double p90_percent = 0;
  std::string text;  ///< what was compared; always printed
};

struct MachineModel {
  std::string name, device;
  double ranks_per_node = 1;
  /// Ranks of a node of which `asked` are wanted; 0: all.
  [[nodiscard]] int ranks_of_node(int asked) const {
    return asked > 0 ? asked : static_cast<int>(ranks_per_node);
  }
  double max_nodes = 1;
  std::string plans;  ///< architecture whose planner uses this machine's figures; empty: none
  Compute compute;
  Kernels kernels;
  Links links;
  Network network;
  Collectives collectives;
  Experts experts;
  Method method;
  KnownError error;
};

/// Throws a usage error that names the first constant out of range.
void check_machine(const MachineModel&);

}  // namespace tilelace::sim
