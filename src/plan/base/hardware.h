// SPDX-License-Identifier: Apache-2.0
// The rates and times of a device and its links, for predictions. Each is a key of machines/*.json,
// which names its source. None depends on a plan's tile or a problem's shape. Rates are per device
// and direction; `gbps` is GB/s (1e9 bytes).
#pragma once

namespace tilelace::plan {

struct Hardware {
  // One device.
  double multiprocessors;     ///< number of SMs of the device
  double peak_tflops;         ///< peak of all tensor cores together
  double efficiency;          ///< share of the peak that a GEMM's loop reaches
  double l2_gbps;             ///< rate into one SM, of which others of a cluster load a part
  double alone_gbps;          ///< rate from L2 into one SM whose CTA is in no cluster
  double l2_total_gbps;       ///< rate from L2 to all SMs together, of clusters
  double l2_mb;               ///< megabytes of L2 that loads of all SMs fill before others leave
  double memory_gbps;         ///< rate from memory to all SMs together
  double worker_memory_gbps;  ///< rate from memory to one SM that runs alone
  double power_tflops;        ///< rate at the power limit if only products drew power
  double power_l2_gbps;       ///< rate at the power limit if only reads of L2 drew power
  double power_memory_gbps;   ///< rate at the power limit if only reads of memory drew power
  double fixed_us;            ///< time of a GEMM's launch, first loads and last stores
  double worker_flag_us;      ///< time that a flag takes from one SM to another
  double step_us;             ///< least time of a k-step
  double tile_us;             ///< epilogue of a 128 x 256 tile while no other warpgroup multiplies
  // Traffic between devices.
  double call_us;       ///< extra time of a kernel that waits for peers: headers, flags, last sums
  double push_gbps;     ///< rate of a copy engine that writes to a peer
  double mesh_gbps;     ///< the same to several peers in turn, where ranks do not wait for peers
  double pull_gbps;     ///< rate of a copy engine that reads from peers
  double store_gbps;    ///< rate of SMs that write to peers, or read from peers while no GEMM runs
  double fetch_gbps;    ///< rate of SMs that read from peers while a GEMM runs
  double spilled_gbps;  ///< the same where peers' partials fill more than L2
  double copy_us;       ///< time of an empty copy, with forking and joining of its stream
  double flag_us;       ///< time that waiting for a flag adds between two steps of a call
};

/// Microseconds for `amount` bytes (or FLOPs) at `giga` * 1e9 bytes (or FLOPs) per second.
inline double us_at(double amount, double giga) { return amount * 1e-3 / giga; }

/// Microseconds in which SMs send this many bytes to peers.
inline double sent_us(const Hardware& h, double bytes) { return us_at(bytes, h.store_gbps); }

/// Fraction by which the memory rates of two devices of the same kind may differ.
inline constexpr double kSameMemory = 0.1;

}  // namespace tilelace::plan
