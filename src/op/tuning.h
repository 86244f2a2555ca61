// SPDX-License-Identifier: Apache-2.0
// The table of measured plans that all ranks of a group share.
#pragma once
#include <memory>
#include <string>

#include "comm/group.h"
#include "tilelace/communicator.h"

namespace tilelace::op {

/// Sets the table in GPU ranks' options if no table is given. Reads the file that the options name,
/// else the file of TILELACE_TUNING ("off": no table). Ranks in several processes check that tables
/// and tuning options are equal (collective). Errors: as agree_on_tuning and read_tuning.
CommunicatorOptions with_tuning(comm::Group&, CommunicatorOptions);

/// Checks the options tuning, tuning_file, autotune, cache and deterministic. Errors: usage.
void check_tuning_options(const CommunicatorOptions&);

/// Checks that all ranks have the same table, or none. `refusal`: why this rank could not read its
/// table. Collective. Errors, on every rank: usage (the tables differ, and the text names both
/// files; or a rank has a refusal), and the group's errors.
void agree_on_tuning(comm::Group&, const plan::TuningTable*, const std::string& refusal,
                     double timeout_s);

}  // namespace tilelace::op
