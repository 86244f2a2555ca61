// SPDX-License-Identifier: Apache-2.0
// The table of measured plans that a group's ranks have in common.
#pragma once
#include <memory>
#include <string>

#include "comm/group.h"
#include "tilelace/communicator.h"

namespace tilelace::op {

/// The options with the table that the environment names, where GPU ranks were given none; "off"
/// there ends the search; and that all ranks tune alike. Ranks that are threads have one
/// environment; others agree: collective. Errors: as agree_on_tuning, and read_tuning's.
CommunicatorOptions with_tuning(comm::Group&, CommunicatorOptions);

/// What is wrong with tuning, autotune, cache and deterministic. Errors: usage.
void check_tuning_options(const CommunicatorOptions&);

/// Whether all ranks have this very table, or none. `refusal`: why this rank could not read its
/// own. Collective. Errors, on every rank: usage (tables differ: both files are named; a refusal),
/// and the group's.
void agree_on_tuning(comm::Group&, const plan::TuningTable*, const std::string& refusal,
                     double timeout_s);

}  // namespace tilelace::op
