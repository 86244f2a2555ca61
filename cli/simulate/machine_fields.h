// SPDX-License-Identifier: Apache-2.0
// All numbers of a machine file, by section and key, in one list that reader and writer share.
#pragma once
#include "sim/machine.h"

namespace tilelace::cli {

/// Calls visit(section, key, number) for each number of the section "method".
template <class Visit>
void each_method_field(sim::Method& m, Visit visit) {
  visit("method", "own_kernels", m.own_kernels);
  visit("method", "fused_call_us", m.fused_call_us);
  visit("method", "product_rate", m.product_rate);
  visit("method", "sum_gbps", m.sum_gbps);
  visit("method", "unfused_call_us", m.unfused_call_us);
  visit("method", "fused_tile_rows", m.fused_tile_rows);
  visit("method", "fused_reduce_cols", m.fused_reduce_cols);
  visit("method", "fused_whole_shards", m.fused_whole_shards);
  visit("method", "fused_pads", m.fused_pads);
  visit("method", "medium_direct", m.medium_direct);
  visit("method", "medium_call_us", m.medium_call_us);
  visit("method", "medium_stage_us", m.medium_stage_us);
}

template <class Visit>
void each_link_field(sim::Links& l, Visit visit) {
  visit("links", "push_gbps", l.push_gbps);
  visit("links", "mesh_gbps", l.mesh_gbps);
  visit("links", "pull_gbps", l.pull_gbps);
  visit("links", "store_gbps", l.store_gbps);
  visit("links", "store_worker_gbps", l.store_worker_gbps);
  visit("links", "latency_us", l.latency_us);
  visit("links", "copy_us", l.copy_us);
  visit("links", "flag_us", l.flag_us);
  visit("links", "local_gbps", l.local_gbps);
  visit("links", "power_share", l.power_share);
  if (l.topology != sim::Topology::tree) return;
  visit("links", "copy_engines", l.copy_engines);
  visit("links", "ranks_per_uplink", l.ranks_per_uplink);
  visit("links", "uplink_gbps", l.uplink_gbps);
  visit("links", "socket_gbps", l.socket_gbps);
  visit("links", "socket_flag_us", l.socket_flag_us);
}

template <class Visit>
void each_kernel_field(sim::Kernels& k, Visit visit) {
  visit("kernels", "efficiency", k.efficiency);
  visit("kernels", "alone_gbps", k.alone_gbps);
  visit("kernels", "l2_total_gbps", k.l2_total_gbps);
  visit("kernels", "l2_mb", k.l2_mb);
  visit("kernels", "memory_gbps", k.memory_gbps);
  visit("kernels", "worker_memory_gbps", k.worker_memory_gbps);
  visit("kernels", "power_tflops", k.power_tflops);
  visit("kernels", "power_l2_gbps", k.power_l2_gbps);
  visit("kernels", "power_memory_gbps", k.power_memory_gbps);
  visit("kernels", "fixed_us", k.fixed_us);
  visit("kernels", "worker_flag_us", k.worker_flag_us);
  visit("kernels", "step_us", k.step_us);
  visit("kernels", "tile_us", k.tile_us);
  visit("kernels", "call_us", k.call_us);
  visit("kernels", "fetch_gbps", k.fetch_gbps);
}

/// Calls visit(section, key, number) for each number of the machine. links.topology must be set
/// before, since the topology `tree` has more numbers. Section "" is the file's top level.
template <class Visit>
void each_field(sim::MachineModel& m, Visit visit) {
  visit("", "ranks_per_node", m.ranks_per_node);
  visit("", "max_nodes", m.max_nodes);
  visit("compute", "multiprocessors", m.compute.multiprocessors);
  visit("compute", "peak_tflops", m.compute.peak_tflops);
  visit("compute", "efficiency", m.compute.efficiency);
  visit("compute", "l2_gbps", m.compute.l2_gbps);
  visit("compute", "power_tflops", m.compute.power_tflops);
  visit("compute", "memory_gbps", m.compute.memory_gbps);
  visit("compute", "fixed_us", m.compute.fixed_us);
  visit("compute", "tile_us", m.compute.tile_us);
  visit("compute", "clock_boost", m.compute.clock_boost);
  visit("compute", "capability", m.compute.capability);
  each_kernel_field(m.kernels, visit);
  each_link_field(m.links, visit);
  visit("network", "nics", m.network.nics);
  visit("network", "nic_gbps", m.network.nic_gbps);
  visit("network", "latency_us", m.network.latency_us);
  visit("network", "message_us", m.network.message_us);
  visit("collectives", "all_gather_fixed_us", m.collectives.all_gather.fixed_us);
  visit("collectives", "all_gather_ramp_us", m.collectives.all_gather.ramp_us);
  visit("collectives", "reduce_scatter_fixed_us", m.collectives.reduce_scatter.fixed_us);
  visit("collectives", "reduce_scatter_ramp_us", m.collectives.reduce_scatter.ramp_us);
  visit("collectives", "all_reduce_fixed_us", m.collectives.all_reduce.fixed_us);
  visit("collectives", "all_reduce_ramp_us", m.collectives.all_reduce.ramp_us);
  visit("collectives", "wire_gbps", m.collectives.wire_gbps);
  if (m.links.topology == sim::Topology::tree)
    visit("collectives", "socket_gbps", m.collectives.socket_gbps);
  visit("collectives", "window_fixed_us", m.collectives.window_fixed_us);
  visit("collectives", "power_share", m.collectives.power_share);
  visit("experts", "permute_gbps", m.experts.permute_gbps);
  visit("experts", "map_pairs_per_us", m.experts.map_pairs_per_us);
  visit("experts", "error_percent", m.experts.error_percent);
  each_method_field(m.method, visit);
  visit("error", "median_percent", m.error.median_percent);
  visit("error", "p90_percent", m.error.p90_percent);
}

}  // namespace tilelace::cli
