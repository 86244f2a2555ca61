// SPDX-License-Identifier: Apache-2.0
#include "plan/tuning/find_tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

#include "core/architecture.h"
#include "core/env.h"
#include "core/read_text.h"
#include "tilelace/error.h"

namespace tilelace::plan {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> tables_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".json") files.push_back(it->path());
  std::ranges::sort(files);
  return files;
}

/// Null: of another machine, or without a row of so many ranks.
std::shared_ptr<const TuningTable> shipped(const fs::path& file, const Machine& machine,
                                           int ranks) {
  const std::string name = fmt::format("the shipped {}", file.filename().string());
  try {
    const auto read = tuning_of(name, read_text("tuning", file, kMostTuningBytes), &machine);
    const bool useful =
        !read->grouped.empty() || std::ranges::any_of(read->rows, [&](const TunedRow& row) {
          return row.problem.ranks == ranks;
        });
    // One of other kernels says so: nobody else tells that it is out of date.
    const bool outdated = read->fits(machine) && read->rows.empty() && !read->notes.empty();
    return useful || outdated ? read : nullptr;
  } catch (const Error& e) {
    TuningTable broken;
    broken.file = name;
    broken.notes.emplace_back(e.what());
    return std::make_shared<const TuningTable>(std::move(broken));
  }
}

}  // namespace

std::shared_ptr<const TuningTable> with_behind(const TuningTable& table,
                                               std::shared_ptr<const TuningTable> behind) {
  auto both = std::make_shared<TuningTable>(table);
  both->behind = std::move(behind);
  return both;
}

std::shared_ptr<const TuningTable> shipped_tuning(const std::vector<fs::path>& places,
                                                  const Machine& machine, int ranks) {
  for (const fs::path& place : places) {
    const auto files = tables_in(place);
    if (files.empty()) continue;
    std::shared_ptr<const TuningTable> all;
    for (auto file = files.rbegin(); file != files.rend(); ++file)
      if (const auto table = shipped(*file, machine, ranks)) all = with_behind(*table, all);
    return all;
  }
  return nullptr;
}

std::shared_ptr<const TuningTable> shipped_tuning(const Machine& machine, int ranks) {
  if (machine.device != Device::cuda || machine.shared_device) return nullptr;
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const TuningTable>> known;
  const std::scoped_lock lock(mutex);
  const std::string key =
      fmt::format("{} {}", cache_name(machine, ranks), env::data_folder().value_or(""));
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known[key] = shipped_tuning(tuning_places(), machine, ranks);
}

std::string cache_name(const Machine& machine, int ranks) {
  return fmt::format("{}-{}-{:.0f}-x{}.json", name_of_architecture(machine.architecture),
                     machine.multiprocessors, machine.memory_bytes_per_s * 1e-9, ranks);
}

std::shared_ptr<const TuningTable> tuning_for(const Machine& machine, int ranks,
                                              std::shared_ptr<const TuningTable> given) {
  if (given != nullptr) return given;
  if (const auto named = env::tuning_file())
    return *named == kNoTuning ? nullptr : read_tuning(*named);
  return shipped_tuning(machine, ranks);
}

}  // namespace tilelace::plan
