// SPDX-License-Identifier: Apache-2.0
// What a communicator's plans come from: the table that it was given, rows that were tuned here and
// before (a cache's), tables that came with this build, in this order.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "comm/group.h"
#include "plan/tuning/tuning_draft.h"
#include "tilelace/communicator.h"

namespace tilelace::op {

class KeptTuning {
 public:
  /// Nothing, and nothing is kept: CPU ranks.
  KeptTuning() = default;
  /// What the options ask for. `together`: rank 0's cache is all ranks', and shipped tables that
  /// differ are nobody's: collective; else this rank reads for itself, or takes the cache that
  /// another one of its process `has_read`. A cache that is none is said
  /// (by rank 0) and left out. Errors: the group's.
  KeptTuning(comm::Group&, const CommunicatorOptions&, const Machine&,
             const std::string& device_name, bool together, const KeptTuning* has_read = nullptr);

  /// Null: predictions alone.
  [[nodiscard]] const std::shared_ptr<const plan::TuningTable>& table() const { return table_; }
  /// Keeps a row, of equal values on all ranks, and writes it into the cache (rank 0), if there is
  /// one: what others have written there meanwhile stays. That it cannot be written is said once.
  void put(const Problem&, const Plan&, const plan::TunedTimes&);
  /// What was tuned here, and what the cache had, as a file.
  [[nodiscard]] std::string text() const { return rows_ ? rows_->text() : ""; }

 private:
  void chain();
  void write();

  std::shared_ptr<const plan::TuningTable> given_, shipped_, table_;
  std::optional<plan::TuningDraft> rows_;
  plan::TunedDevice device_;
  std::string file_;  ///< the cache's; empty: there is none
  bool writes_ = false;
};

}  // namespace tilelace::op
