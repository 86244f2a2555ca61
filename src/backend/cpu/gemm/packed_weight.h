// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tilelace/tensor.h"

namespace tilelace::cpu {

/// `in_place`: the weight may be read without a packed copy, so it must not change while in use.
enum class Panels : std::uint8_t { packed, in_place };

/// One weight [n, k], packed into column panels of `tile_n` columns for TileGemm.
/// Immutable and shared by all workers of a rank. The source may change after packing (not with
/// Panels::in_place). Memory: n * k elements of size_of(dtype) bytes, or of 4 bytes if this CPU has
/// no fast product for the type. Errors: usage (an absent view, n < 1, k < 0 or tile_n < 1), system
/// (oneDNN fails).
class PackedWeight {
 public:
  PackedWeight(const TensorView& weight, int tile_n, Panels how = Panels::packed);
  PackedWeight(PackedWeight&&) noexcept;
  PackedWeight& operator=(PackedWeight&&) noexcept;
  ~PackedWeight();

  [[nodiscard]] std::int64_t n() const { return n_; }
  [[nodiscard]] std::int64_t k() const { return k_; }
  [[nodiscard]] int tile_n() const { return tile_n_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::int64_t panels() const { return (n_ + tile_n_ - 1) / tile_n_; }
  /// Columns of a panel: tile_n; the last panel has fewer if tile_n does not divide n.
  [[nodiscard]] std::int64_t panel_cols(std::int64_t panel) const {
    const std::int64_t left = n_ - panel * tile_n_;
    return left < tile_n_ ? left : tile_n_;
  }
  /// Bytes of the packed copy.
  [[nodiscard]] std::size_t bytes() const;

 private:
  friend class TileGemm;
  struct Impl;

  std::int64_t n_ = 0;
  std::int64_t k_ = 0;
  int tile_n_ = 1;
  DType dtype_{};
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilelace::cpu
