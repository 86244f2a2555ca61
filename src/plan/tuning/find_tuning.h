// SPDX-License-Identifier: Apache-2.0
// Tables that calls take which were given none: what came with this build, and a folder that keeps
// what was tuned before.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plan/tuning/tuning_table.h"

namespace tilelace::plan {

/// In the place of a table's file: no table, nor one that is found.
inline constexpr std::string_view kNoTuning = "off";

/// Folders that shipped tables may lie in, best first: in TILELACE_DATA, beside the library or the
/// program, where this build was installed, in its sources.
std::vector<std::filesystem::path> tuning_places();

/// Of the first place that has any: all tables that fit the machine and have rows of so many ranks,
/// by name, one behind the other; null: none. A file that is no table is one without rows, whose
/// note says why.
std::shared_ptr<const TuningTable> shipped_tuning(const std::vector<std::filesystem::path>& places,
                                                  const Machine&, int ranks);
/// Of tuning_places(); read once a process for each kind of machine.
std::shared_ptr<const TuningTable> shipped_tuning(const Machine&, int ranks);

/// A cache's file for such a machine and so many ranks: "sm_90a-132-4917-x2.json".
std::string cache_name(const Machine&, int ranks);

/// The table with others behind it, whose rows are asked after its own.
std::shared_ptr<const TuningTable> with_behind(const TuningTable&,
                                               std::shared_ptr<const TuningTable> behind);

/// What calls on such a machine take: the given table, else the one that TILELACE_TUNING names,
/// else the shipped ones; null: predictions alone. A cache is the communicator's to read. Errors:
/// as read_tuning.
std::shared_ptr<const TuningTable> tuning_for(const Machine&, int ranks,
                                              std::shared_ptr<const TuningTable> given = nullptr);

}  // namespace tilelace::plan
