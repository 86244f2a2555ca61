// SPDX-License-Identifier: Apache-2.0
#include "op/tuning.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/env.h"
#include "plan/tuning/find_tuning.h"
#include "plan/tuning/tuning_table.h"

namespace tilelace::op {
namespace {

constexpr std::string_view kRefused = "refused ";
constexpr std::size_t kMostText = 2000;
constexpr double kMostAutotune = 3600;  ///< seconds

/// "0123456789abcdef FILE": what ranks compare, and what they say of it.
std::string said_of(const plan::TuningTable* table) {
  return table == nullptr ? "0 no table"
                          : fmt::format("{:016x} {}", table->digest_of_all(), table->file);
}
std::string_view digest_in(std::string_view said) { return said.substr(0, said.find(' ')); }
std::string_view file_in(std::string_view said) { return said.substr(said.find(' ') + 1); }

/// What of the options must be equal, too.
std::string habits_of(const CommunicatorOptions& o) {
  return fmt::format("autotune {:g} s, deterministic {}, cache {}, tables {}", o.autotune,
                     o.deterministic ? "yes" : "no", o.cache.empty() ? "no" : "yes",
                     o.tuning_file == plan::kNoTuning ? "no" : "yes");
}

void agree_on_habits(comm::Group& group, const CommunicatorOptions& o) {
  const auto all = group.all_gather(habits_of(o), o.timeout_s);
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    require(all[rank] == all[0],
            "communicator: tuning: got ({}) on rank 0, ({}) on rank {}: pass the same options on "
            "every rank",
            all[0], all[rank], rank);
}

}  // namespace

void check_tuning_options(const CommunicatorOptions& o) {
  const bool asked = !o.tuning_file.empty() && o.tuning_file != plan::kNoTuning;
  require(o.device == Device::cuda || (o.tuning == nullptr && !asked),
          "communicator: tuning: tables are for GPU ranks: pass none to CPU ranks");
  require(o.tuning == nullptr || !asked,
          "communicator: tuning: got both a table and the file {}: pass one of them",
          o.tuning_file);
  require(o.autotune >= 0 && o.autotune <= kMostAutotune,
          "communicator: autotune: got {} s, expected 0 to {}", o.autotune, kMostAutotune);
  require(!o.deterministic || o.autotune == 0,
          "communicator: autotune with deterministic: got {} s, expected 0: timed plans may differ "
          "from run to run, and so may the last bits of results",
          o.autotune);
  require(o.cache.size() <= 4096,
          "communicator: cache: got a path of {} bytes, expected at most 4096", o.cache.size());
}

void agree_on_tuning(comm::Group& group, const plan::TuningTable* table, const std::string& refusal,
                     double timeout_s) {
  const std::string mine = refusal.empty() ? said_of(table) : std::string(kRefused) + refusal;
  const auto all = group.all_gather(std::string_view(mine).substr(0, kMostText), timeout_s);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank].starts_with(kRefused))
      raise(ErrorKind::usage, "communicator: tuning: rank {}: {}", rank,
            all[rank].substr(kRefused.size()));
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    require(digest_in(all[rank]) == digest_in(all[0]),
            "communicator: tuning: got {} on rank 0, {} on rank {}: the table must be the same on "
            "every rank",
            file_in(all[0]), file_in(all[rank]), rank);
}

CommunicatorOptions with_tuning(comm::Group& group, CommunicatorOptions o) {
  if (o.device != Device::cuda) return o;
  std::string refusal;
  try {
    if (o.tuning == nullptr && o.tuning_file.empty())
      o.tuning_file = env::tuning_file().value_or("");
    if (o.tuning == nullptr && !o.tuning_file.empty() && o.tuning_file != plan::kNoTuning)
      o.tuning = read_tuning(o.tuning_file);
  } catch (const Error& e) {
    refusal = e.what();
  }
  if (!group.one_process()) {
    agree_on_tuning(group, o.tuning.get(), refusal, o.timeout_s);
    agree_on_habits(group, o);
  } else if (!refusal.empty()) {
    raise(ErrorKind::usage, "communicator: tuning: {}", refusal);
  }
  return o;
}

}  // namespace tilelace::op
