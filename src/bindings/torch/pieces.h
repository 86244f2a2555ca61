// SPDX-License-Identifier: Apache-2.0
// Hands out pieces of a fixed range. It only computes offsets and never touches memory.
#pragma once
#include <cstddef>
#include <map>
#include <optional>

namespace tilelace::torch_binding {

/// Offsets depend only on the order of calls, their sizes and which of their streams are equal. So
/// ranks that make the same calls get the same offsets. Not thread safe.
class Pieces {
 public:
  static constexpr std::size_t kGrain = std::size_t{2} << 20U;

  /// A range of this many bytes, rounded down to a multiple of kGrain. Pieces are rounded up.
  explicit Pieces(std::size_t bytes);

  /// Takes a piece from the smallest gap that fits (from the lowest of several). Returns its
  /// offset, a multiple of kGrain; none if nothing fits. A piece that was given back is only given
  /// to the same stream again, as in torch's cache, since work in that stream may still use its
  /// memory. If bad_alloc is thrown, nothing has changed.
  std::optional<std::size_t> take(std::size_t bytes, const void* stream);

  /// Frees the piece at this offset. Returns false if there is none. Does not throw.
  bool give_back(std::size_t at) noexcept;

  /// Bytes in use.
  [[nodiscard]] std::size_t taken_bytes() const { return taken_bytes_; }

 private:
  struct Piece {
    std::size_t bytes = 0;
    bool taken = false;
    bool fresh = true;             ///< whether no stream has used it yet
    const void* stream = nullptr;  ///< the stream that uses it or used it last
  };
  using Iterator = std::map<std::size_t, Piece>::iterator;

  /// The first free piece of the gap that take() uses for so many bytes; end(): nothing fits.
  Iterator gap_for(std::size_t bytes, const void* stream);

  /// All pieces, also free ones, by offset. Adjacent free pieces that a stream may use form a gap
  /// for that stream; take() merges the pieces that it needs into one.
  std::map<std::size_t, Piece> pieces_;
  std::size_t taken_bytes_ = 0;
};

}  // namespace tilelace::torch_binding
