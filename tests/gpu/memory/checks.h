// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "comm/cuda/device_memory.h"
#include "ranks.h"
#include "tilelace/error.h"

namespace tilelace::comm::test {

/// Moves data between all ranks in every way (writes, reads, additions); receivers check all words.
void check_transfers(Member& member);
/// Checks memory of a subgroup, which orders its ranks differently from the group.
void check_subgroup(Member& member);
/// Checks host memory that kernels can access.
void check_host_memory(Member& member);
/// Allocates, uses and frees memory many times; nothing may grow.
void check_cycles(Member& member);
/// Measures how long it takes to map many GiB.
void check_large(Member& member);
/// Checks calls in which ranks disagree, and allocations that fail. Every rank must get the same
/// error, and nothing may be left allocated.
void check_failures(Member& member);
/// Ends one rank, whose memory must stay valid. The other ranks must get an error and be able to
/// make a new group.
void check_death(Member& member);

/// The error that `work` throws; kind and text are empty if there is none.
struct Caught {
  std::optional<ErrorKind> kind;
  std::string text;
};
Caught catch_error(const std::function<void()>& work);

/// Resources that must not grow. look() is collective: no rank allocates while another counts.
struct Held {
  std::size_t descriptors = 0;  ///< open files of the process; 0 on all ranks but its first
  std::size_t free_bytes = 0;
};
Held look(const Member& member);
/// Says what has grown beyond what the driver's caches may take; empty text if nothing has.
std::string grown(const Held& before, const Held& after);

/// Each rank writes to the next rank, which checks the data. Returns what was wrong, or empty text.
std::string pass_around(const Group& group, const Gpu& gpu, const DeviceMemory& memory,
                        const std::function<void()>& barrier, std::uint32_t seed);

}  // namespace tilelace::comm::test
