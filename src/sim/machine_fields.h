// SPDX-License-Identifier: Apache-2.0
// All numbers of a machine, by the section and key of its file, with what they may be: one list,
// which checks, reader and writer share.
#pragma once
#include "sim/machine.h"

namespace tilelace::sim {

/// A number's key with its section, as errors and lists of sources name it.
inline std::string dotted(const std::string& section, const std::string& key) {
  return section.empty() ? key : section + "." + key;
}

/// The least and the largest value that a number may have, and whether it is a whole one.
struct Bounds {
  double least, most;
  bool whole = false;
};
inline constexpr Bounds kRate{1e-6, 1e6}, kTime{0, 1e7};

/// Calls visit(section, key, number, bounds) for each number of the section "method".
void each_method_field(auto& m, auto visit) {
  visit("method", "own_kernels", m.own_kernels, Bounds{0, 1, true});
  visit("method", "fused_call_us", m.fused_call_us, kTime);
  visit("method", "product_rate", m.product_rate, Bounds{0.01, 1.5});
  visit("method", "sum_gbps", m.sum_gbps, kRate);
  visit("method", "unfused_call_us", m.unfused_call_us, kTime);
  visit("method", "fused_tile_rows", m.fused_tile_rows, Bounds{1, 256, true});
  visit("method", "fused_reduce_cols", m.fused_reduce_cols, Bounds{0, 256, true});
  visit("method", "fused_whole_shards", m.fused_whole_shards, Bounds{0, 1, true});
  visit("method", "fused_pads", m.fused_pads, Bounds{0, 1, true});
  visit("method", "medium_direct", m.medium_direct, Bounds{0, 1, true});
  visit("method", "medium_call_us", m.medium_call_us, kTime);
  visit("method", "medium_stage_us", m.medium_stage_us, kTime);
}

void each_link_field(auto& l, auto visit) {
  visit("links", "push_gbps", l.push_gbps, kRate);
  visit("links", "mesh_gbps", l.mesh_gbps, kRate);
  visit("links", "pull_gbps", l.pull_gbps, kRate);
  visit("links", "store_gbps", l.store_gbps, kRate);
  visit("links", "store_worker_gbps", l.store_worker_gbps, kRate);
  visit("links", "latency_us", l.latency_us, kTime);
  visit("links", "copy_us", l.copy_us, kTime);
  visit("links", "flag_us", l.flag_us, kTime);
  visit("links", "local_gbps", l.local_gbps, kRate);
  visit("links", "power_share", l.power_share, Bounds{0, 1});
  if (l.topology != Topology::tree) return;
  visit("links", "copy_engines", l.copy_engines, Bounds{1, 2, true});
  visit("links", "ranks_per_uplink", l.ranks_per_uplink, Bounds{1, 1024, true});
  visit("links", "uplink_gbps", l.uplink_gbps, kRate);
  visit("links", "socket_gbps", l.socket_gbps, kRate);
  visit("links", "socket_flag_us", l.socket_flag_us, kTime);
}

void each_kernel_field(auto& k, auto visit) {
  visit("kernels", "efficiency", k.efficiency, Bounds{0.01, 1});
  visit("kernels", "alone_gbps", k.alone_gbps, kRate);
  visit("kernels", "l2_total_gbps", k.l2_total_gbps, kRate);
  visit("kernels", "l2_mb", k.l2_mb, kRate);
  visit("kernels", "memory_gbps", k.memory_gbps, kRate);
  visit("kernels", "worker_memory_gbps", k.worker_memory_gbps, kRate);
  visit("kernels", "power_tflops", k.power_tflops, kRate);
  visit("kernels", "power_l2_gbps", k.power_l2_gbps, kRate);
  visit("kernels", "power_memory_gbps", k.power_memory_gbps, kRate);
  visit("kernels", "fixed_us", k.fixed_us, kTime);
  visit("kernels", "worker_flag_us", k.worker_flag_us, kTime);
  visit("kernels", "step_us", k.step_us, kTime);
  visit("kernels", "tile_us", k.tile_us, kTime);
  visit("kernels", "call_us", k.call_us, kTime);
  visit("kernels", "fetch_gbps", k.fetch_gbps, kRate);
  visit("kernels", "spilled_gbps", k.spilled_gbps, kRate);
}

/// Calls visit(section, key, number, bounds) for each number of the machine. links.topology must be
/// set before, since the topology `tree` has more numbers. Section "" is the file's top level.
void each_field(auto& m, auto visit) {
  visit("", "ranks_per_node", m.ranks_per_node, Bounds{1, 1024, true});
  visit("", "max_nodes", m.max_nodes, Bounds{1, 1024, true});
  visit("compute", "multiprocessors", m.compute.multiprocessors, Bounds{1, 4096, true});
  visit("compute", "peak_tflops", m.compute.peak_tflops, kRate);
  visit("compute", "efficiency", m.compute.efficiency, Bounds{0.01, 1});
  visit("compute", "l2_gbps", m.compute.l2_gbps, kRate);
  visit("compute", "power_tflops", m.compute.power_tflops, kRate);
  visit("compute", "memory_gbps", m.compute.memory_gbps, kRate);
  visit("compute", "fixed_us", m.compute.fixed_us, kTime);
  visit("compute", "tile_us", m.compute.tile_us, kTime);
  visit("compute", "clock_boost", m.compute.clock_boost, Bounds{1, 3});
  visit("compute", "capability", m.compute.capability, Bounds{0, 999, true});
  each_kernel_field(m.kernels, visit);
  each_link_field(m.links, visit);
  visit("network", "nics", m.network.nics, Bounds{0, 64, true});
  visit("network", "nic_gbps", m.network.nic_gbps, kRate);
  visit("network", "latency_us", m.network.latency_us, kTime);
  visit("network", "message_us", m.network.message_us, kTime);
  visit("collectives", "all_gather_fixed_us", m.collectives.all_gather.fixed_us, kTime);
  visit("collectives", "all_gather_ramp_us", m.collectives.all_gather.ramp_us, kTime);
  visit("collectives", "reduce_scatter_fixed_us", m.collectives.reduce_scatter.fixed_us, kTime);
  visit("collectives", "reduce_scatter_ramp_us", m.collectives.reduce_scatter.ramp_us, kTime);
  visit("collectives", "all_reduce_fixed_us", m.collectives.all_reduce.fixed_us, kTime);
  visit("collectives", "all_reduce_ramp_us", m.collectives.all_reduce.ramp_us, kTime);
  visit("collectives", "wire_gbps", m.collectives.wire_gbps, kRate);
  if (m.links.topology == Topology::tree)
    visit("collectives", "socket_gbps", m.collectives.socket_gbps, kRate);
  visit("collectives", "window_fixed_us", m.collectives.window_fixed_us, kTime);
  visit("collectives", "power_share", m.collectives.power_share, Bounds{0, 1});
  visit("experts", "permute_gbps", m.experts.permute_gbps, kRate);
  visit("experts", "map_pairs_per_us", m.experts.map_pairs_per_us, kRate);
  visit("experts", "error_percent", m.experts.error_percent, Bounds{0, 1000});
  each_method_field(m.method, visit);
  visit("error", "median_percent", m.error.median_percent, Bounds{0, 1000});
  visit("error", "p90_percent", m.error.p90_percent, Bounds{0, 1000});
}

}  // namespace tilelace::sim
