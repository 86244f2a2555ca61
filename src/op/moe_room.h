// SPDX-License-Identifier: Apache-2.0
// Scratch memory for mixtures of experts. prepare_moe allocates it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "tilelace/moe.h"

namespace tilelace::op {

/// Sizes, in bytes, of the buffers that a call uses between its passes. The second half of a layer
/// reuses two of them: `tokens` for its partial sums and `rows` for its products.
struct MoeBytes {
  std::size_t ids = 0;     ///< [m, top_k]: the ids of all ranks
  std::size_t tokens = 0;  ///< [m, hidden]
  std::size_t rows = 0;    ///< [m * top_k, hidden]

  static MoeBytes of(const MoeLayer& l, std::int64_t m) {
    const auto aligned = [](std::int64_t bytes) {
      return static_cast<std::size_t>((bytes + 255) / 256 * 256);
    };
    const auto item = static_cast<std::int64_t>(size_of(l.dtype));
    const auto id = static_cast<std::int64_t>(row_of(Item::i64).bytes);
    return {aligned(m * l.top_k * id), aligned(m * l.hidden * item),
            aligned(m * l.top_k * l.hidden * item)};
  }
  [[nodiscard]] std::size_t all() const { return ids + tokens + rows; }
  [[nodiscard]] bool fits(const MoeBytes& room) const {
    return ids <= room.ids && tokens <= room.tokens && rows <= room.rows;
  }
  [[nodiscard]] MoeBytes with(const MoeBytes& b) const {
    return {std::max(ids, b.ids), std::max(tokens, b.tokens), std::max(rows, b.rows)};
  }
};

struct MoeRoom {
  MoeBytes bytes;
  std::int64_t k = 0;  ///< the largest k for which the passes have scratch
  std::unique_ptr<RankMemory> memory;
  bool captured = false;  ///< whether graphs captured calls that use this memory
  std::vector<std::unique_ptr<RankMemory>> retired = {};  ///< earlier ones that graphs go on with

  [[nodiscard]] bool holds(const MoeBytes& b) const { return memory != nullptr && b.fits(bytes); }
  /// Makes room for `b`, beside what there was room for.
  void grow(const MoeBytes& b, Backend& backend) {
    if (holds(b)) return;
    if (captured) retired.push_back(std::move(memory));
    memory = nullptr;
    captured = false;
    const MoeBytes all = bytes.with(b);
    memory = backend.make_memory(all.all());
    bytes = all;
  }

  [[nodiscard]] void* ids() const { return memory->data(); }
  [[nodiscard]] void* tokens() const { return memory->data() + bytes.ids; }
  [[nodiscard]] void* rows() const { return memory->data() + bytes.ids + bytes.tokens; }
};

}  // namespace tilelace::op
