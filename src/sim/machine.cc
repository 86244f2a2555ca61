// SPDX-License-Identifier: Apache-2.0
#include "sim/machine.h"

#include <cmath>

#include "core/check.h"

namespace tilelace::sim {
namespace {

void between(const char* what, double value, double least, double most) {
  require(std::isfinite(value) && value >= least && value <= most,
          "machine: {}: got {}, expected {} to {}", what, value, least, most);
}
void whole(const char* what, double value, double least, double most) {
  between(what, value, least, most);
  require(value == std::floor(value), "machine: {}: got {}, expected a whole number", what, value);
}
constexpr double kLeastRate = 1e-6, kMostRate = 1e6;
constexpr double kMostUs = 1e7;
void rate(const char* what, double value) { between(what, value, kLeastRate, kMostRate); }
void time(const char* what, double value) { between(what, value, 0, kMostUs); }

void check_compute(const Compute& c) {
  whole("compute.multiprocessors", c.multiprocessors, 1, 4096);
  rate("compute.peak_tflops", c.peak_tflops);
  between("compute.efficiency", c.efficiency, 0.01, 1);
  rate("compute.l2_gbps", c.l2_gbps);
  rate("compute.power_tflops", c.power_tflops);
  rate("compute.memory_gbps", c.memory_gbps);
  time("compute.fixed_us", c.fixed_us);
  time("compute.tile_us", c.tile_us);
  between("compute.clock_boost", c.clock_boost, 1, 3);
  whole("compute.capability", c.capability, 0, 999);
}

void check_kernels(const Kernels& k) {
  between("kernels.efficiency", k.efficiency, 0.01, 1);
  rate("kernels.alone_gbps", k.alone_gbps);
  rate("kernels.l2_total_gbps", k.l2_total_gbps);
  rate("kernels.l2_mb", k.l2_mb);
  rate("kernels.memory_gbps", k.memory_gbps);
  rate("kernels.worker_memory_gbps", k.worker_memory_gbps);
  rate("kernels.power_tflops", k.power_tflops);
  rate("kernels.power_l2_gbps", k.power_l2_gbps);
  rate("kernels.power_memory_gbps", k.power_memory_gbps);
  time("kernels.fixed_us", k.fixed_us);
  time("kernels.worker_flag_us", k.worker_flag_us);
  time("kernels.step_us", k.step_us);
  time("kernels.tile_us", k.tile_us);
  time("kernels.call_us", k.call_us);
  rate("kernels.fetch_gbps", k.fetch_gbps);
}

void check_links(const Links& l) {
  rate("links.push_gbps", l.push_gbps);
  rate("links.mesh_gbps", l.mesh_gbps);
  rate("links.pull_gbps", l.pull_gbps);
  rate("links.store_gbps", l.store_gbps);
  rate("links.store_worker_gbps", l.store_worker_gbps);
  time("links.latency_us", l.latency_us);
  time("links.copy_us", l.copy_us);
  time("links.flag_us", l.flag_us);
  rate("links.local_gbps", l.local_gbps);
  between("links.power_share", l.power_share, 0, 1);
  whole("links.copy_engines", l.copy_engines, 1, 2);
  whole("links.ranks_per_uplink", l.ranks_per_uplink, 1, 1024);
  rate("links.uplink_gbps", l.uplink_gbps);
  rate("links.socket_gbps", l.socket_gbps);
  time("links.socket_flag_us", l.socket_flag_us);
}

void check_collectives(const Collectives& c) {
  time("collectives.all_gather_fixed_us", c.all_gather.fixed_us);
  time("collectives.all_gather_ramp_us", c.all_gather.ramp_us);
  time("collectives.reduce_scatter_fixed_us", c.reduce_scatter.fixed_us);
  time("collectives.reduce_scatter_ramp_us", c.reduce_scatter.ramp_us);
  time("collectives.all_reduce_fixed_us", c.all_reduce.fixed_us);
  time("collectives.all_reduce_ramp_us", c.all_reduce.ramp_us);
  rate("collectives.wire_gbps", c.wire_gbps);
  rate("collectives.socket_gbps", c.socket_gbps);
  time("collectives.window_fixed_us", c.window_fixed_us);
  between("collectives.power_share", c.power_share, 0, 1);
}

}  // namespace

void check_machine(const MachineModel& m) {
  require(!m.name.empty(), "machine: name is missing");
  whole("ranks_per_node", m.ranks_per_node, 1, 1024);
  whole("max_nodes", m.max_nodes, 1, 1024);
  check_compute(m.compute);
  check_kernels(m.kernels);
  check_links(m.links);
  whole("network.nics", m.network.nics, 0, 64);
  require(m.max_nodes == 1 || m.network.nics > 0,
          "machine: network.nics: got 0, expected at least 1 if max_nodes is {}", m.max_nodes);
  rate("network.nic_gbps", m.network.nic_gbps);
  time("network.latency_us", m.network.latency_us);
  time("network.message_us", m.network.message_us);
  check_collectives(m.collectives);
  rate("experts.permute_gbps", m.experts.permute_gbps);
  rate("experts.map_pairs_per_us", m.experts.map_pairs_per_us);
  between("experts.error_percent", m.experts.error_percent, 0, 1000);
  whole("method.own_kernels", m.method.own_kernels, 0, 1);
  time("method.fused_call_us", m.method.fused_call_us);
  between("method.product_rate", m.method.product_rate, 0.01, 1.5);
  rate("method.sum_gbps", m.method.sum_gbps);
  time("method.unfused_call_us", m.method.unfused_call_us);
  whole("method.fused_tile_rows", m.method.fused_tile_rows, 1, 256);
  whole("method.fused_reduce_cols", m.method.fused_reduce_cols, 0, 256);
  whole("method.fused_whole_shards", m.method.fused_whole_shards, 0, 1);
  whole("method.fused_pads", m.method.fused_pads, 0, 1);
  whole("method.medium_direct", m.method.medium_direct, 0, 1);
  time("method.medium_call_us", m.method.medium_call_us);
  time("method.medium_stage_us", m.method.medium_stage_us);
  between("error.median_percent", m.error.median_percent, 0, 1000);
  between("error.p90_percent", m.error.p90_percent, 0, 1000);
}

}  // namespace tilelace::sim
