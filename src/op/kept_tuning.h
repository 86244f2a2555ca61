// SPDX-License-Identifier: Apache-2.0
// The measured plans of a communicator, as a chain of tables: the table given to the communicator,
// then rows tuned by this program or kept in its cache, then installed tables.
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
  /// For CPU ranks, which have no table and keep nothing.
  KeptTuning() = default;
  /// Reads the tables that the options name. If `together`, the call is collective: all ranks use
  /// rank 0's cache, and installed tables only if they are equal on all ranks. Otherwise this rank
  /// reads alone, or takes the cache from another rank of its process (`has_read`). Rank 0 logs an
  /// invalid cache, which is then ignored. Errors: the group's.
  KeptTuning(comm::Group&, const CommunicatorOptions&, const Machine&,
             const std::string& device_name, bool together, const KeptTuning* has_read = nullptr);

  /// The first table of the chain; null: no table, so that plans are chosen by prediction.
  [[nodiscard]] const std::shared_ptr<const plan::TuningTable>& table() const { return table_; }
  /// Keeps a row, which must be equal on all ranks. If there is a cache, rank 0 writes the row into
  /// it and keeps rows that other programs wrote there meanwhile. A failed write is logged once.
  void put(const Problem&, const Plan&, const plan::TunedTimes&);
  void put(const plan::GroupedProduct&, const plan::GroupedShape&, const plan::TunedTimes&);
  /// The text of a tuning file: the rows that this program tuned and those of the cache.
  [[nodiscard]] std::string text() const { return rows_ ? rows_->text() : ""; }

 private:
  void kept();
  void chain();
  void write();

  std::shared_ptr<const plan::TuningTable> given_, shipped_, table_;
  std::optional<plan::TuningDraft> rows_;
  plan::TunedDevice device_;
  std::string file_;  ///< the cache's file; empty: no cache
  bool writes_ = false;
};

}  // namespace tilelace::op
