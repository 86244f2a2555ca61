// SPDX-License-Identifier: Apache-2.0
// Hands out pieces of a range that is there as a whole; knows sizes alone, no memory.
#pragma once
#include <cstddef>
#include <map>
#include <optional>

namespace tilelace::torch_binding {

/// Places follow from the calls and from which streams are equal, so ranks that make the same calls
/// get the same ones. Not thread safe.
class Pieces {
 public:
  static constexpr std::size_t kGrain = std::size_t{2} << 20U;

  /// Of a range of so many bytes; what is over whole grains is never handed out.
  explicit Pieces(std::size_t bytes);

  /// Where a piece begins, a multiple of kGrain: in the smallest gap that takes it, the lowest of
  /// equal ones. What a stream gave back goes to that stream alone, as in torch's own cache: its
  /// work on it may not be done yet. None: no gap takes it. May throw bad_alloc, nothing changed.
  std::optional<std::size_t> take(std::size_t bytes, const void* stream);

  /// A piece that begins there. False: there is none. Does not throw.
  bool give_back(std::size_t at) noexcept;

  /// Bytes of pieces that are out.
  [[nodiscard]] std::size_t taken_bytes() const { return taken_bytes_; }

 private:
  struct Piece {
    std::size_t bytes = 0;
    bool taken = false;
    bool fresh = true;             ///< no stream has had it
    const void* stream = nullptr;  ///< that has it or had it last
  };
  using Iterator = std::map<std::size_t, Piece>::iterator;

  /// The gap for a piece of so many bytes: its first part, or the end.
  Iterator gap_for(std::size_t bytes, const void* stream);

  /// The whole range, by where they begin. Those that are not taken and lie side by side make up a
  /// gap, which differs by stream; take() makes one piece of them.
  std::map<std::size_t, Piece> pieces_;
  std::size_t taken_bytes_ = 0;
};

}  // namespace tilelace::torch_binding
