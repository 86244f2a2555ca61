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
  bool symmetric = false;  ///< in and out in a SymmetricBuffer
  bool check = true;
  int iterations = 0;  ///< 0: as many as fit the time for a row
  int warmup = 2;
  std::vector<std::string> baselines;  ///< GPUs
  GpuFacts gpus;                       ///< cuda only
};

/// The number of elements of a call, and for in-place calls where the rank's own part lies.
struct CollectiveShape {
  Collective op{};
  std::int64_t count = 0;  ///< for CollectiveArgs::counts
  std::int64_t in = 0, out = 0;
  std::int64_t in_at = 0, out_at = 0;  ///< in place: offsets in the larger tensor
  std::int64_t bytes = 0;              ///< the size that the user gave
};

/// Sizes are defined as in nccl-tests: the buffer of all_reduce, the larger buffer of all_gather
/// and reduce_scatter, a rank's input of all_to_all. Parts of at least 16 bytes are rounded down to
/// multiples of 16. Errors: usage (a part of less than one element).
CollectiveShape shape_of(Collective, std::int64_t bytes, DType, int ranks, int rank);

/// Those of the work's options that apply to this op, so that one list of options serves several
/// ops: `shots` is dropped for ops other than all_reduce if all_reduce is also asked for.
CollectiveOptions options_for(const CollectiveWork&, Collective);

std::string names_of_collectives();
/// How many names in this comma-separated list are collectives.
std::size_t count_collectives(std::string_view ops);
/// Parses a list as "all_reduce,all_gather". Errors: usage (an unknown name).
std::vector<Collective> parse_collectives(std::string_view ops);

/// Parses a size as "8K" or "1M"; K, M and G are powers of 1024.
std::int64_t parse_bytes(std::string_view what, std::string_view text);
/// Parses sizes as "8K,1M" or begin:end:factor. Errors: usage.
std::vector<std::int64_t> parse_byte_sizes(std::string_view what, std::string_view text);
std::string show_size(std::int64_t bytes);

/// Parses options as "lines=0,shots=2,workers=8,chunk=4096". Errors: usage.
CollectiveOptions parse_collective_options(std::string_view text);
const char* collective_plan_help();

Item item_of(DType);

}  // namespace tilelace::cli
