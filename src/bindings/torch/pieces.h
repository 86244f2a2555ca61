// SPDX-License-Identifier: Apache-2.0
// Hands out pieces of a fixed range. Works on offsets and sizes only, never on memory.
#pragma once
#include <cstddef>
#include <map>
#include <optional>

namespace tilelace::torch_binding {

/// Offsets depend only on the calls and on which streams are equal, so ranks that make the same
/// calls get the same offsets. Not thread safe.
class Pieces {
 public:
  static constexpr std::size_t kGrain = std::size_t{2} << 20U;

  /// A range of this many bytes; only whole grains are handed out.
  explicit Pieces(std::size_t bytes);

  /// Offset of a piece, a multiple of kGrain: in the smallest gap that fits, and the lowest of
  /// equal ones. Memory that a stream gave back goes only to that stream again, as in torch's own
  /// cache, since its work may not be done. None: nothing fits. On bad_alloc nothing has changed.
  std::optional<std::size_t> take(std::size_t bytes, const void* stream);

  /// Frees the piece at this offset. False: there is none. Does not throw.
  bool give_back(std::size_t at) noexcept;

  /// Bytes in use.
  [[nodiscard]] std::size_t taken_bytes() const { return taken_bytes_; }

 private:
  struct Piece {
    std::size_t bytes = 0;
    bool taken = false;
    bool fresh = true;             ///< no stream has used it yet
    const void* stream = nullptr;  ///< the stream that uses it or used it last
  };
  using Iterator = std::map<std::size_t, Piece>::iterator;

  /// The first free piece of the gap for this many bytes; end(): nothing fits.
  Iterator gap_for(std::size_t bytes, const void* stream);

  /// The whole range by offset. Free pieces side by side form a gap; which ones depends on the
  /// stream. take() makes one piece of them.
  std::map<std::size_t, Piece> pieces_;
  std::size_t taken_bytes_ = 0;
};

}  // namespace tilelace::torch_binding
