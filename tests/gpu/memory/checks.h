// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "comm/cuda/device_memory.h"
#include "ranks.h"
#include "tilelace/error.h"

namespace tilelace::comm::test {

/// Every way into every peer's memory, checked word for word by its owner.
void check_transfers(Member& member);
/// Memory of a group of some of the ranks, in another order.
void check_subgroup(Member& member);
/// Memory of the host that kernels reach.
void check_host_memory(Member& member);
/// Made, used and let go many times: nothing grows.
void check_cycles(Member& member);
/// How long it takes to map memory of many GiB.
void check_large(Member& member);
/// Ranks that disagree and memory that cannot be had: the same error everywhere, nothing left.
void check_failures(Member& member);
/// A rank that ends: its memory stays, the others get an error and make a new group.
void check_death(Member& member);

/// The error that `work` throws; kind and text are empty without one.
struct Caught {
  std::optional<ErrorKind> kind;
  std::string text;
};
Caught catch_error(const std::function<void()>& work);

/// What must not grow. Collective, so that no rank looks while another has memory.
struct Held {
  std::size_t descriptors = 0;  ///< of the process; 0 on all ranks but the first if they share it
  std::size_t free_bytes = 0;
};
Held look(const Member& member);
/// Empty if no more is held than before, but for what caches of the driver may take.
std::string grown(const Held& before, const Held& after);

/// Each rank writes to the next one, who looks at it. Empty, or what was wrong.
std::string pass_around(const Group& group, const Gpu& gpu, const DeviceMemory& memory,
                        const std::function<void()>& barrier, std::uint32_t seed);

}  // namespace tilelace::comm::test
