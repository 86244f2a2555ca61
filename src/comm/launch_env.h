// SPDX-License-Identifier: Apache-2.0
// Who this process is among the ranks that a launcher started: torchrun, mpirun or our own.
#pragma once
#include <functional>
#include <optional>
#include <string>

namespace tilelace::comm {

/// What a process needs for make_process_group.
struct Launch {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;     ///< which of the host's GPUs is its own
  std::string directory;  ///< where the ranks of this user and this job meet
  friend bool operator==(const Launch&, const Launch&) = default;
};

/// Looks an environment variable up.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

/// RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT; of Open MPI the OMPI_COMM_WORLD_ names
/// where the first are not set. LOCAL_RANK is by default RANK, MASTER_ADDR the own host; instead of
/// MASTER_PORT, mpirun's PMIX_NAMESPACE may name the job. None where no launcher gave a rank.
/// Errors: usage (`launch: RANK, got "x", expected 0..WORLD_SIZE-1`; ranks on several hosts).
std::optional<Launch> read_launch(const Lookup& lookup);

}  // namespace tilelace::comm
