// SPDX-License-Identifier: Apache-2.0
// The rank of this process, as set by a launcher: torchrun, mpirun or `tilelace launch`.
#pragma once
#include <functional>
#include <optional>
#include <string>

namespace tilelace::comm {

/// What a process needs for make_process_group.
struct Launch {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;     ///< number of the rank's GPU on this host
  std::string directory;  ///< where the ranks of this user and job meet
  friend bool operator==(const Launch&, const Launch&) = default;
};

/// Looks up an environment variable.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

/// Reads RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, or mpirun's OMPI_COMM_WORLD_* if neither
/// RANK nor WORLD_SIZE is set. Reads MASTER_ADDR (default localhost) and MASTER_PORT, or
/// PMIX_NAMESPACE if MASTER_PORT is absent. LOCAL_RANK defaults to RANK. No launcher: nullopt.
/// Errors: usage (`launch: RANK: got "x", expected 0..WORLD_SIZE-1`; ranks on several hosts).
std::optional<Launch> read_launch(const Lookup& lookup);

}  // namespace tilelace::comm
