// SPDX-License-Identifier: Apache-2.0
// What predictions know of a device and of the links between devices: rates and times, each a key
// of machines/*.json that says where it comes from, none of a tile or of a shape. Rates are of one
// device and direction, in GB/s (1e9 bytes).
#pragma once

namespace tilelace::plan {

struct Hardware {
  // A device.
  double multiprocessors;     ///< that the other figures are of
  double peak_tflops;         ///< of all tensor cores
  double efficiency;          ///< of that: what a product's loop reaches
  double l2_gbps;             ///< into one multiprocessor
  double l2_total_gbps;       ///< out of L2, to all together
  double memory_gbps;         ///< all multiprocessors together
  double worker_memory_gbps;  ///< one multiprocessor alone, from memory
  double power_tflops;        ///< at the power limit, if products were all that draws power
  double power_l2_gbps;       ///< likewise reads of L2
  double power_memory_gbps;   ///< likewise reads of memory
  double fixed_us;            ///< launch of a product, its first loads, its last stores
  double worker_flag_us;      ///< a flag from one multiprocessor to another
  double tile_us;             ///< end of 128 x 256 results that no other group hides
  // Among devices.
  double call_us;     ///< what a kernel that meets peers takes more: headers, flags, last sums
  double push_gbps;   ///< a copy engine writes to a peer
  double mesh_gbps;   ///< likewise to all of several peers in turn
  double pull_gbps;   ///< a copy engine reads from peers
  double store_gbps;  ///< multiprocessors write to peers, or read in a kernel of its own
  double fetch_gbps;  ///< multiprocessors read from peers beside products
  double copy_us;     ///< a copy beyond its bytes; streams forked and joined
  double flag_us;     ///< a flag that somebody waits for between two pieces of work
};

/// Us of so many bytes, or FLOPs, at a rate in 1e9 a second.
inline double us_at(double amount, double giga) { return amount * 1e-3 / giga; }

/// Us that multiprocessors take to send so many bytes to peers.
inline double sent_us(const Hardware& h, double bytes) { return us_at(bytes, h.store_gbps); }

/// How far memory rates of one kind of device may lie apart: data sheets round, boards differ.
inline constexpr double kSameMemory = 0.1;

}  // namespace tilelace::plan
