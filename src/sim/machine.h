// SPDX-License-Identifier: Apache-2.0
// A machine as the simulator sees it: constants of the hardware and of its libraries, none of a
// shape. Rates are GB/s (1e9 bytes), times microseconds, products TFLOP/s. Values stand in machine
// files, each with its source; here a rate is 1 and a time 0.
#pragma once
#include <cstdint>
#include <string>

namespace tilelace::sim {

/// One device. A tile on one multiprocessor takes what the slower of the tensor cores and of L2
/// takes; a product is at least what power and memory allow.
struct Compute {
  double multiprocessors = 1;
  double peak_tflops = 1;   ///< all multiprocessors at full clock
  double efficiency = 1;    ///< of that, what a main loop reaches
  double l2_gbps = 1;       ///< into one multiprocessor
  double power_tflops = 1;  ///< of a long product, at the power limit
  double memory_gbps = 1;
  double fixed_us = 0;     ///< launch, first loads, last stores
  double tile_us = 0;      ///< end of a tile that nothing hides
  double clock_boost = 1;  ///< clocks under a light load over those of a product at the power
                           ///< limit; 1: power never holds them down
  double capability = 0;   ///< 90: compute capability 9.0; 0: none that kernels are made for
};

/// What Tilelace's own kernels reach; the planner predicts with it (plan/base/hardware.h has the
/// meaning of each).
struct Kernels {
  double efficiency = 1;
  double l2_total_gbps = 1;
  double memory_gbps = 1;
  double worker_memory_gbps = 1;
  double power_tflops = 1;
  double power_l2_gbps = 1;
  double power_memory_gbps = 1;
  double fixed_us = 0;
  double worker_flag_us = 0;
  double tile_us = 0;
  double call_us = 0;
  double fetch_gbps = 1;
};

enum class Topology : std::uint8_t {
  all_to_all,  ///< each rank has a port into a switch
  tree         ///< PCIe: ports behind shared uplinks, two halves joined by a socket link
};

/// Between the ranks of a node. Rates are per rank and direction unless they say otherwise.
struct Links {
  Topology topology = Topology::all_to_all;
  double push_gbps = 1;          ///< a copy engine writes to a peer
  double mesh_gbps = 1;          ///< to several in turn, as other ranks do, which drift apart
  double pull_gbps = 1;          ///< a copy engine reads from a peer
  double store_gbps = 1;         ///< multiprocessors write to peers, all together
  double store_worker_gbps = 1;  ///< one multiprocessor
  double latency_us = 0;         ///< a flag, one way
  double copy_us = 0;            ///< a copy beyond its bytes
  double flag_us = 0;            ///< a flag sent by a copy engine
  double copy_engines = 1;       ///< tree: 2 where copies across uplinks run beside the others
  double local_gbps = 1;         ///< copy inside a device
  double power_share = 0;        ///< of a product's power, what a busy link draws beside it
  double ranks_per_uplink = 1;   ///< tree
  double uplink_gbps = 1;        ///< tree: shared by those ranks, each direction
  double socket_gbps = 1;        ///< tree: shared by all, each direction
  double socket_flag_us = 0;     ///< tree: what a flag across the sockets takes its sender more
};

/// Between nodes. nics = 0: there is no network.
struct Network {
  double nics = 0;  ///< of a node
  double nic_gbps = 1;
  double latency_us = 0;
  double message_us = 0;  ///< a transfer beyond its bytes
};

/// A library's collective alone takes fixed + ramp * sqrt(MB on the wire) + the bytes at its rate
/// (network: at the NICs' rate) + the own shard's copy: a pipeline whose pieces grow with the size.
struct Collective {
  double fixed_us = 0;
  double ramp_us = 0;
};

struct Collectives {
  Collective all_gather, reduce_scatter, all_reduce;
  double wire_gbps = 1;        ///< of ranks that no socket link parts
  double socket_gbps = 1;      ///< tree: of a ring across the sockets
  double window_fixed_us = 0;  ///< of an all-gather into registered memory, which is stored at
                               ///< links.store_gbps at once; 0: the library has none
  double power_share = 0;      ///< of a product's power that a collective draws
};

/// What an implementation adds to a call.
struct Method {
  std::string name = "tilelace";
  double own_kernels = 0;         ///< 1: plays the plans of the kernels of src/plan, where the
                                  ///< device has them
  double fused_call_us = 0;       ///< of a call whose kernel does not begin under the one before
  double product_rate = 1;        ///< of its product alone, of the library's
  double sum_gbps = 1;            ///< own kernels: peers' terms into the sum of one multiprocessor
  double unfused_call_us = 0;     ///< what a framework adds to collective and product in a row
  double fused_tile_rows = 1;     ///< the fewest rows of a tile
  double fused_reduce_cols = 0;   ///< gemm_rs: the only width of a tile; 0: any
  double fused_whole_shards = 0;  ///< 1: ag_gemm copies a shard at a time, by copy engines
  double fused_pads = 0;          ///< 1: gemm_rs fills up each rank's rows to whole tiles
  double medium_direct = 0;    ///< 1: medium-grained partials go straight to owners, also on trees
  double medium_call_us = 0;   ///< streams forked and joined
  double medium_stage_us = 0;  ///< between two products of the medium-grained method
};

/// What the constants were compared with, as percent of the measured time.
struct KnownError {
  double median_percent = 0;
  double p90_percent = 0;
  std::string text;  ///< on what; always printed
};

struct MachineModel {
  std::string name, device;
  double ranks_per_node = 1;
  double max_nodes = 1;
  std::string plans;  ///< the architecture whose plans are predicted with it, if any
  Compute compute;
  Kernels kernels;
  Links links;
  Network network;
  Collectives collectives;
  Method method;
  KnownError error;
};

/// Throws a usage error that names the first constant out of range.
void check_machine(const MachineModel&);

}  // namespace tilelace::sim
