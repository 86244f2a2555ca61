// SPDX-License-Identifier: Apache-2.0
// Finds installed tuning tables, and the cache's file, for communicators that were given no table.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plan/tuning/tuning_table.h"

namespace tilelace::plan {

/// In place of the name of a table's file, this forbids all tables, even installed tables.
inline constexpr std::string_view kNoTuning = "off";

/// Folders that may have installed tables, best first: the folder that TILELACE_DATA names, folders
/// beside and above the library or program, this build's install folder, this build's source tree.
std::vector<std::filesystem::path> tuning_places();

/// Looks in the first of `places` that has files. Chains the tables that fit the machine and have
/// rows for this number of ranks or for experts, in the order of their names; null: there are none.
/// An invalid or outdated file counts as a table without rows, with a note.
std::shared_ptr<const TuningTable> shipped_tuning(const std::vector<std::filesystem::path>& places,
                                                  const Machine&, int ranks);
/// Looks in tuning_places(), once per process, kind of machine and number of ranks.
std::shared_ptr<const TuningTable> shipped_tuning(const Machine&, int ranks);

/// Name of the cache's file for this kind of machine and number of ranks:
/// "sm_90a-132-4917-x2.json".
std::string cache_name(const Machine&, int ranks);

/// A copy of the table, with other tables chained after it: the table's own rows come first.
std::shared_ptr<const TuningTable> with_behind(const TuningTable&,
                                               std::shared_ptr<const TuningTable> behind);

/// The table for this kind of machine: `given`, else the file that the variable TILELACE_TUNING
/// names, else installed tables. Null: no table, so that plans are chosen by prediction. The
/// communicator itself reads the cache. Errors: as read_tuning.
std::shared_ptr<const TuningTable> tuning_for(const Machine&, int ranks,
                                              std::shared_ptr<const TuningTable> given = nullptr);

}  // namespace tilelace::plan
