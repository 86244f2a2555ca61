// SPDX-License-Identifier: Apache-2.0
// What `bench` is asked to time of collectives.
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
  int iterations = 0;  ///< 0: what fits the time of a row
  int warmup = 2;
  std::vector<std::string> baselines;  ///< GPUs
  GpuFacts gpus;                       ///< cuda only
};

/// Elements of a call, and where a rank's own part lies when it is in place.
struct CollectiveShape {
  Collective op{};
  std::int64_t count = 0;  ///< of CollectiveArgs
  std::int64_t in = 0, out = 0;
  std::int64_t in_at = 0, out_at = 0;  ///< in place: in the one tensor
  std::int64_t bytes = 0;              ///< the size that is said
};

/// A size means what nccl-tests means by it: all_reduce's buffer; the whole of all_gather and
/// reduce_scatter; a rank's input of all_to_all. Parts of it are cut to 16 bytes where they have as
/// many. Errors: usage (less than an element a part).
CollectiveShape shape_of(Collective, std::int64_t bytes, DType, int ranks, int rank);

/// The options that this op takes, so that one list does for several: shots are of sums that
/// travel to all ranks, where such an op is among those that are asked for.
CollectiveOptions options_for(const CollectiveWork&, Collective);

std::string names_of_collectives();
/// How many of these names, between commas, are collectives.
std::size_t count_collectives(std::string_view ops);
/// "all_reduce,all_gather". Errors: usage (another name).
std::vector<Collective> parse_collectives(std::string_view ops);

/// "8K", "1M": K, M, G are powers of 1024.
std::int64_t parse_bytes(std::string_view what, std::string_view text);
/// "8K,1M", or begin:end:factor. Errors: usage.
std::vector<std::int64_t> parse_byte_sizes(std::string_view what, std::string_view text);
std::string show_size(std::int64_t bytes);

/// "lines=0,shots=2,workers=8,chunk=4096". Errors: usage.
CollectiveOptions parse_collective_options(std::string_view text);
const char* collective_plan_help();

Item item_of(DType);

}  // namespace tilelace::cli
