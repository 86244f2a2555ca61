// SPDX-License-Identifier: Apache-2.0
// Transfers by TMA bulk copies, global -> shared -> global, between memory of any two ranks.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/proxy.h"

namespace tilelace::cuda {

/// One bulk copy. Both addresses and `bytes` are multiples of 16.
struct Piece {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::uint32_t bytes = 0;
};

/// A contiguous transfer, cut into pieces.
struct PiecesOf {
  std::byte* to;
  const std::byte* from;
  std::size_t bytes;
  std::uint32_t piece_bytes;

  [[nodiscard]] TILELACE_DEVICE std::uint32_t count() const {
    return static_cast<std::uint32_t>((bytes + piece_bytes - 1) / piece_bytes);
  }
  [[nodiscard]] TILELACE_DEVICE Piece operator()(std::uint32_t i) const {
    const std::size_t at = static_cast<std::size_t>(i) * piece_bytes;
    const std::size_t left = bytes - at;
    return {to + at, from + at,
            left < piece_bytes ? static_cast<std::uint32_t>(left) : piece_bytes};
  }
};

/// A ring of kDepth pieces in shared memory. One thread loads pieces into the ring and stores them
/// from it, always by the same object, since `done` counts pieces and gives the barriers' phases.
template <int kDepth>
struct BulkRing {
  static_assert(kDepth >= 2, "one piece is loaded while another is stored");
  ptx::Shared pieces = 0;  ///< kDepth * piece_bytes bytes, aligned to 16 (128 is faster)
  ptx::Shared full = 0;    ///< kDepth mbarriers
  std::uint32_t piece_bytes = 0;
  std::uint32_t done = 0;

  /// Must be called first, by the thread that will call run.
  TILELACE_DEVICE void init() const {
    for (int i = 0; i < kDepth; ++i) ptx::barrier_init(full + 8 * i, 1);
    ptx::barrier_init_fence();  // stays: no op uses this verb; gpu_litmus tests it
  }

  /// Moves pieces piece_of(0) .. piece_of(count - 1), none longer than piece_bytes. Called by: one
  /// thread. TMA must see the sources. It does if they were written before the kernel, if each
  /// writer called proxy_fence_global before a barrier, or if this thread called wait_for_bulk. On
  /// return all sources have been read, but the last stores are in flight, so no flag may be raised
  /// before bulk_complete. Additions of several ranks are unordered, so the rounding of sums
  /// differs from run to run.
  template <Landing kLanding, class Pieces>
  TILELACE_DEVICE void run(std::uint32_t count, const Pieces& piece_of) {
    // stays: no op uses this verb; gpu_litmus tests it
    ptx::store_wait_read<0>();  // waits for the stores of an earlier run
    for (std::uint32_t i = 0; i < kDepth - 1 && i < count; ++i) load(i, piece_of(i));
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t stage = (done + i) % kDepth;
      const Piece p = piece_of(i);
      // stays: no op uses this verb; gpu_litmus tests it
      ptx::barrier_wait(full + 8 * stage, static_cast<int>((done + i) / kDepth & 1U));
      bulk_store<kLanding>(p.to, pieces + stage * piece_bytes, p.bytes);
      ptx::store_commit();
      if (i + kDepth - 1 >= count) continue;
      // stays: no op uses this verb; gpu_litmus tests it
      ptx::store_wait_read<1>();  // the next load overwrites the stage of piece i - 1
      load(i + kDepth - 1, piece_of(i + kDepth - 1));
    }
    done += count;
  }

 private:
  TILELACE_DEVICE void load(std::uint32_t i, const Piece& p) const {
    const std::uint32_t stage = (done + i) % kDepth;
    ptx::barrier_expect(full + 8 * stage, static_cast<int>(p.bytes));
    bulk_load(pieces + stage * piece_bytes, p.from, p.bytes, full + 8 * stage);
  }
};

/// Waits until all bulk stores of this thread have reached their destinations; then signal may
/// publish them. The `.read` form of this PTX wait would only say that shared memory is free again.
TILELACE_DEVICE void bulk_complete() { ptx::store_wait(); }

}  // namespace tilelace::cuda
