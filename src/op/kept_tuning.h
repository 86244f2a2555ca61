// SPDX-License-Identifier: Apache-2.0
// Where a communicator's plans come from, in this order: the table that it was given, rows tuned
// here and earlier (the cache), installed tables.
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
  /// Has no table, and keeps nothing: for CPU ranks.
  KeptTuning() = default;
  /// As the options say. `together`: collective; rank 0's cache is used by all ranks, and installed
  /// tables are used only if they are equal everywhere. If not, this rank reads by itself, or takes
  /// the cache from another rank of its process (`has_read`). An invalid cache is logged by rank 0
  /// and ignored. Errors: the group's.
  KeptTuning(comm::Group&, const CommunicatorOptions&, const Machine&,
             const std::string& device_name, bool together, const KeptTuning* has_read = nullptr);

  /// Null: predictions only.
  [[nodiscard]] const std::shared_ptr<const plan::TuningTable>& table() const { return table_; }
  /// Keeps a row, equal on all ranks. Rank 0 writes it into the cache, if there is one, and keeps
  /// rows that others have written there meanwhile. A failed write is logged once.
  void put(const Problem&, const Plan&, const plan::TunedTimes&);
  void put(const plan::GroupedProduct&, plan::GroupedTiling, const plan::TunedTimes&);
  /// Rows tuned here, and those of the cache, as a file.
  [[nodiscard]] std::string text() const { return rows_ ? rows_->text() : ""; }

 private:
  void kept();
  void chain();
  void write();

  std::shared_ptr<const plan::TuningTable> given_, shipped_, table_;
  std::optional<plan::TuningDraft> rows_;
  plan::TunedDevice device_;
  std::string file_;  ///< the cache's file; empty: none
  bool writes_ = false;
};

}  // namespace tilelace::op
