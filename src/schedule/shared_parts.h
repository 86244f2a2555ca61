// SPDX-License-Identifier: Apache-2.0
// Finished tiles of a fused gemm_ar that arrive from other ranks: their flags, their places, and
// how they are copied to the caller.
#pragma once
#include "schedule/share_order.h"

namespace tilelace::schedule {

/// Flags of a rank. A worker's tile has `parts` flags: one for each group of threads that computes
/// a part of it.
struct ShareFlags {
  int parts = 1;
  int first_shared = 0;  ///< first flag of peers' finished tiles

  [[nodiscard]] TILELACE_HD constexpr int shared(const ShareOrder& o, int owner, GemmCell c) const {
    return first_shared + o.partial(owner, c) * parts;
  }
  [[nodiscard]] TILELACE_HD constexpr int end(const ShareOrder& o) const {
    return first_shared + o.num_partials() * parts;
  }
};

/// A part that a group of threads of a peer's worker finished, and the flag that announces it.
struct SharedPart {
  int flag = -1;  ///< -1: no such part
  int owner = 0, part = 0;
  GemmCell cell{0, 0, 0};
};

/// The i-th part among all that peers finish; flag -1: there are fewer parts.
[[nodiscard]] TILELACE_HD constexpr SharedPart shared_part(const ShareOrder& o,
                                                           const ShareFlags& flags, int i) {
  for (int s = 0; s < o.count; ++s) {
    if (o.own(s)) continue;
    const int parts = o.tile_rows[s] * o.cols * flags.parts;
    if (i >= parts) {
      i -= parts;
      continue;
    }
    const int tile = i / flags.parts;
    SharedPart p;
    p.owner = o.section[s].owner;
    p.part = i % flags.parts;
    p.cell = {tile % o.tile_rows[s], tile / o.tile_rows[s], s};
    p.flag = flags.shared(o, p.owner, p.cell) + p.part;
    return p;
  }
  return {};
}

/// Layout of a worker's tile. Parts of a CTA lie below each other; CTAs are numbered by columns.
struct PartShape {
  int cluster_rows = 1, cluster_cols = 1;
  int groups = 1;          ///< parts of a CTA
  int rows = 1, cols = 1;  ///< extents of a part
};

/// The place of a part in a result of `columns` columns, clipped at the result's end.
struct PartPlace {
  int row = 0, rows = 0, col = 0, cols = 0;
};

[[nodiscard]] TILELACE_HD constexpr PartPlace part_place(const ShareOrder& o, const SharedPart& p,
                                                         const PartShape& shape, int columns) {
  const int s = p.cell.section;
  const int cta = p.part / shape.groups;
  const int down = (p.cell.row * shape.cluster_rows + cta % shape.cluster_rows) * shape.groups +
                   p.part % shape.groups;
  const int across = (o.first_col(s) + p.cell.col) * shape.cluster_cols + cta / shape.cluster_rows;
  PartPlace at;
  at.row = o.begin(s) + down * shape.rows;
  at.rows = static_cast<int>(max_of(0, min_of(shape.rows, o.end(s) - at.row)));
  at.col = across * shape.cols;
  at.cols = static_cast<int>(max_of(0, min_of(shape.cols, columns - at.col)));
  return at;
}

/// The role `collect` of one of `workers` workers. Verbs: admit(); wait_for(part) waits for the
/// part's flag; deliver(part) copies the part from the slot to the user.
template <class Verbs>
TILELACE_ROLE void run_collect(const ShareOrder& o, const ShareFlags& flags, int worker,
                               int workers, Verbs& v) {
  v.admit();
  for (int i = worker;; i += workers) {
    const SharedPart part = shared_part(o, flags, i);
    if (part.flag < 0) return;
    v.wait_for(part);
    v.deliver(part);
  }
}

}  // namespace tilelace::schedule
