// SPDX-License-Identifier: Apache-2.0
// Which collectives and sizes `bench` is asked to time.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpu.h"
#include "tilelace/collectives.h"
#include "tilelace/communicator.h"
#include "tilelace/dtype.h"

namespace tilelace::cli {

struct CollectiveWork {
  std::vector<Collective> ops;
  std::vector<std::int64_t> sizes;  ///< bytes
  int ranks = 1;
  DType dtype{};
  Device device = Device::cpu;
  CollectiveOptions options;
  bool in_place = false;
  bool symmetric = false;  ///< in and out lie in a SymmetricBuffer
  bool check = true;
  int iterations = 0;  ///< samples; 0: 10 on GPUs, 5 to 40 on CPUs (as many as fit 0.1 s)
  int warmup = 2;
  std::vector<std::string> baselines;  ///< GPUs: names of the baselines to time
  GpuFacts gpus;                       ///< cuda only
};

/// How many elements a call has and, for in-place calls, where the rank's own part lies.
struct CollectiveShape {
  Collective op{};
  std::int64_t count = 0;  ///< the only entry of CollectiveArgs::counts
  std::int64_t in = 0, out = 0;
  std::int64_t in_at = 0, out_at = 0;  ///< in-place calls: offset in the larger tensor, in elements
  std::int64_t bytes = 0;              ///< the size that the user gave, rounded down by shape_of
};

/// As in nccl-tests, `bytes` is the size of all_reduce's buffer, of the larger buffer in all_gather
/// or reduce_scatter, or of a rank's input to all_to_all. If the buffer has a part per rank, parts
/// of 16 bytes or more are rounded down to multiples of 16. Errors: usage (a part has no element).
CollectiveShape shape_of(Collective, std::int64_t bytes, DType, int ranks, int rank);

/// The work's options for this op. If the work has all_reduce, `shots` is dropped for other ops, so
/// that one list of options serves several ops.
CollectiveOptions options_for(const CollectiveWork&, Collective);

std::string names_of_collectives();
/// How many names in this comma-separated list are collectives.
std::size_t count_collectives(std::string_view ops);
/// Parses a list such as "all_reduce,all_gather". Errors: usage (an unknown name).
std::vector<Collective> parse_collectives(std::string_view ops);

/// Parses a size such as "8K" or "1M"; K, M and G are powers of 1024.
std::int64_t parse_bytes(std::string_view what, std::string_view text);
/// Parses a list of sizes such as "8K,1M", or begin:end:factor. Errors: usage.
std::vector<std::int64_t> parse_byte_sizes(std::string_view what, std::string_view text);
std::string show_size(std::int64_t bytes);

/// Parses options such as "lines=0,shots=2,workers=8,chunk=4096". Errors: usage.
CollectiveOptions parse_collective_options(std::string_view text);
const char* collective_plan_help();

Item item_of(DType);

}  // namespace tilelace::cli
