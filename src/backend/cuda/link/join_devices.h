// SPDX-License-Identifier: Apache-2.0
// Chooses a GPU rank's link to each peer when the ranks prepare for the first time.
#pragma once
#include <string>
#include <vector>

#include "comm/group.h"
#include "comm/link_table.h"

namespace tilelace::cuda {

/// The links to all ranks, by rank; null for this rank. Collective, bounded. Errors, on every rank:
/// usage (two ranks share a device), system (two ranks have no link that raises flags), peer,
/// timeout.
std::vector<const comm::LinkRow*> join_devices(comm::Group&, int device, const std::string& uuid,
                                               double timeout_s);

/// Throws unless calls can run over the link between ranks `low` and `high`. Error: system.
void require_signals(const comm::LinkRow&, int low, int high);

}  // namespace tilelace::cuda
