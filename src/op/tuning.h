// SPDX-License-Identifier: Apache-2.0
// The table of measured plans that all ranks of a group share.
#pragma once
#include <memory>
#include <string>

#include "comm/group.h"
#include "tilelace/communicator.h"

namespace tilelace::op {

/// The options with the table that the environment names, if GPU ranks got none ("off" there: no
/// table at all). Checks that all ranks have the same tuning options; ranks in several processes do
/// this collectively. Errors: those of agree_on_tuning and read_tuning.
CommunicatorOptions with_tuning(comm::Group&, CommunicatorOptions);

/// Checks tuning, autotune, cache and deterministic. Errors: usage.
void check_tuning_options(const CommunicatorOptions&);

/// Checks that all ranks have the same table, or none. `refusal`: why this rank could not read its
/// own. Collective. Errors, on every rank: usage (tables differ: names both files; a refusal), and
/// the group's.
void agree_on_tuning(comm::Group&, const plan::TuningTable*, const std::string& refusal,
                     double timeout_s);

}  // namespace tilelace::op
