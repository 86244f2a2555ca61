// SPDX-License-Identifier: Apache-2.0
// A machine with round numbers, for tests of the simulator.
#pragma once
#include "sim/machine.h"

namespace tilelace::sim {

inline MachineModel sample_machine() {
  MachineModel m;
  m.name = "sample";
  m.ranks_per_node = 8;
  m.compute = {.multiprocessors = 132,
               .peak_tflops = 989,
               .efficiency = 0.85,
               .l2_gbps = 130,
               .power_tflops = 750,
               .memory_gbps = 4300,
               .fixed_us = 4};
  m.links.push_gbps = m.links.mesh_gbps = 380;
  m.links.pull_gbps = 370;
  m.links.store_gbps = 340;
  m.links.store_worker_gbps = 42;
  m.links.latency_us = 0.7;
  m.links.copy_us = 6;
  m.links.flag_us = 2;
  m.links.local_gbps = 2100;
  m.links.ranks_per_uplink = 4;
  m.network.nic_gbps = 50;
  m.network.latency_us = 5;
  m.network.message_us = 3;
  m.collectives.all_gather = m.collectives.reduce_scatter = m.collectives.all_reduce = {12, 5};
  m.collectives.wire_gbps = m.collectives.socket_gbps = 341;
  m.method.fused_call_us = 3;
  m.method.fused_tile_rows = 64;
  m.method.medium_call_us = 5;
  m.method.medium_stage_us = 4;
  return m;
}

}  // namespace tilelace::sim
