// SPDX-License-Identifier: Apache-2.0
// With transport `store` ag_gemm's kernel sends this rank's rows: idle warps of all its CTAs, or
// CTAs that do nothing else, by bulk copies through the memory that others have operands in.
#pragma once
#include "backend/cuda/device/transfer_bulk.h"
#include "backend/cuda/device/transfer_threads.h"
#include "backend/cuda/kernels/gathered_rows.h"

namespace tilelace::cuda {

constexpr int kPushThreads = 64;
constexpr int kPushBarrier = 8;

/// The verbs that PushOrder::run calls, as two warps of every CTA carry them out.
template <class Params>
struct PushVerbs {
  const Params& p;
  std::uint32_t epoch;
  Crew crew{static_cast<int>(threadIdx.x) - 64, kPushThreads};

  TILELACE_DEVICE void push(int peer, std::int64_t first, std::int64_t last) const {
    copy_by_threads(crew, p.call.memory_at(peer) + p.staged + (p.push.begin + first) * p.row_bytes,
                    p.input + first * p.row_bytes,
                    static_cast<std::size_t>((last - first) * p.row_bytes));
  }
  TILELACE_DEVICE void signal(int peer, int flag) const {
    publish(crew, kPushBarrier, p.call.flags_at(peer) + flag, epoch);
  }
};

template <class Params>
TILELACE_DEVICE void push_rows(const Params& p) {
  ptx::wait_prerequisites();
  PushVerbs<Params> verbs{p, call_number(p.call)};
  ptx::arrive_threads(kNumberBarrier, kNumberThreads);
  p.push.run(static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), verbs);
}

/// A thread's share of the sends of CTAs that only send: what PushOrder::run does, as one stream of
/// pieces that fit its ring. A chunk's flag leaves when the pieces behind it are under way.
template <class Params>
struct BulkSends {
  const Params& p;
  std::uint32_t epoch;
  int worker, workers;
  std::uint32_t piece_bytes;

  /// Pieces of a chunk; those that a short chunk does not have are empty.
  [[nodiscard]] TILELACE_DEVICE std::uint32_t each() const {
    const std::int64_t rows = min(p.push.chunk_rows, p.push.rows);
    return static_cast<std::uint32_t>((rows * p.row_bytes + piece_bytes - 1) / piece_bytes);
  }
  [[nodiscard]] TILELACE_DEVICE std::uint32_t count() const {
    if (worker >= p.push.pieces) return 0;
    return static_cast<std::uint32_t>((p.push.pieces - worker - 1) / workers + 1) * each();
  }
  [[nodiscard]] TILELACE_DEVICE schedule::PushOrder::Send send(std::uint32_t i) const {
    return p.push.piece(worker + static_cast<int>(i / each()) * workers);
  }
  TILELACE_DEVICE Piece operator()(std::uint32_t i) const {
    const auto s = send(i);
    const std::int64_t at = static_cast<std::int64_t>(i % each()) * piece_bytes;
    const std::int64_t left = (s.last - s.first) * p.row_bytes - at;
    std::byte* const to = p.call.memory_at(s.peer) + p.staged + p.push.begin * p.row_bytes;
    const std::int64_t first = s.first * p.row_bytes + at;
    return {to + first, p.input + first,
            static_cast<std::uint32_t>(max(std::int64_t{0}, min(left, std::int64_t{piece_bytes})))};
  }
  /// Raises the flag of the chunk that has piece i, all of which has been written.
  TILELACE_DEVICE void signal(std::uint32_t i) const {
    const auto s = send(i);
    cuda::signal(p.call.flags_at(s.peer) + s.flag, epoch);
  }
  /// Piece i has left: the chunk before it is done but for its pieces among the last ones.
  TILELACE_DEVICE void behind(std::uint32_t i) const {
    const std::uint32_t of_chunk = i % each();
    if (i < each() || of_chunk != min(1U, each() - 1)) return;
    of_chunk == 0 ? ptx::store_wait<1>() : ptx::store_wait<2>();
    signal(i - of_chunk - 1);
  }
};

constexpr int kSendWarps = 2;  ///< of a CTA that only sends; one thread of each copies
constexpr int kSendDepth = 4;

/// `warp`: of those that send. `ring`: the CTA's memory for operands, of kRingBytes. `barriers`:
/// memory that this CTA does not use, for kSendWarps * kSendDepth of them.
template <int kRingBytes, class Params>
TILELACE_DEVICE void send_in_bulk(const Params& p, int warp, ptx::Shared ring,
                                  ptx::Shared barriers) {
  constexpr std::uint32_t kPiece = kRingBytes / (kSendWarps * kSendDepth) / 128 * 128;
  static_assert(kPiece > 0);
  ptx::wait_prerequisites();
  const std::uint32_t epoch = call_number(p.call);
  __syncwarp();  // stays: the barrier below says that all lanes have the number
  ptx::arrive_threads(kNumberBarrier, kNumberThreads);
  if ((threadIdx.x & 31) != 0) return;
  BulkRing<kSendDepth> copies{ring + warp * kSendDepth * static_cast<int>(kPiece),
                              barriers + warp * kSendDepth * 8, kPiece};
  copies.init();
  const int worker = static_cast<int>(blockIdx.x) * kSendWarps + warp;
  const BulkSends<Params> sends{p, epoch, worker, p.push.senders * kSendWarps, kPiece};
  const std::uint32_t count = sends.count();
  if (count == 0) return;
  copies.template run<Landing::copy>(count, sends, [&](std::uint32_t i) { sends.behind(i); });
  bulk_complete();
  sends.signal(count - 1);
}

}  // namespace tilelace::cuda
