// SPDX-License-Identifier: Apache-2.0
// How ag_gemm's kernel sends this rank's rows with transport `store`. Either idle warps of all CTAs
// send, or some CTAs only send, by bulk copies through their ring, which then has no operands.
#pragma once
#include "backend/cuda/device/transfer_bulk.h"
#include "backend/cuda/device/transfer_threads.h"
#include "backend/cuda/kernels/gathered_rows.h"

namespace tilelace::cuda {

constexpr int kPushThreads = 64;
constexpr int kPushBarrier = 8;

/// Where a rank keeps row `row` of this rank's shard.
template <class Params>
TILELACE_DEVICE std::byte* sent_to(const Params& p, int peer, std::int64_t row) {
  return p.call.memory_at(peer) + p.staged + (p.push.begin + row) * p.row_bytes;
}

/// The verbs of PushOrder::run, for two warps of every CTA.
template <class Params>
struct PushVerbs {
  const Params& p;
  std::uint32_t epoch;
  Crew crew{static_cast<int>(threadIdx.x) - 64, kPushThreads};

  TILELACE_DEVICE void push(int peer, std::int64_t first, std::int64_t last) const {
    copy_by_threads(crew, sent_to(p, peer, first), p.input + first * p.row_bytes,
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

/// One thread's share of the sends of PushOrder::run, in a CTA that only sends. The share is one
/// sequence of pieces that fit the ring. A chunk's flag is raised while the next chunk is stored.
template <class Params>
struct BulkSends {
  const Params& p;
  std::uint32_t epoch;
  int worker, workers;
  std::uint32_t piece_bytes;
  std::uint32_t each;  ///< pieces per chunk; a shorter chunk has empty pieces at its end

  TILELACE_DEVICE BulkSends(const Params& params, std::uint32_t number, int first, int senders,
                            std::uint32_t most_bytes)
      : p(params), epoch(number), worker(first), workers(senders), piece_bytes(most_bytes) {
    const std::int64_t bytes = min(p.push.chunk_rows, p.push.rows) * p.row_bytes;
    each = static_cast<std::uint32_t>((bytes + piece_bytes - 1) / piece_bytes);
  }

  [[nodiscard]] TILELACE_DEVICE std::uint32_t count() const {
    if (worker >= p.push.pieces) return 0;
    return static_cast<std::uint32_t>((p.push.pieces - worker - 1) / workers + 1) * each;
  }
  TILELACE_DEVICE Piece operator()(std::uint32_t i) const {
    const std::uint32_t chunk = i / each;
    const auto s = send(chunk);
    const std::int64_t at = static_cast<std::int64_t>(i - chunk * each) * piece_bytes;
    const std::int64_t left = (s.last - s.first) * p.row_bytes - at;
    return {sent_to(p, s.peer, s.first) + at, p.input + s.first * p.row_bytes + at,
            static_cast<std::uint32_t>(max(std::int64_t{0}, min(left, std::int64_t{piece_bytes})))};
  }
  /// Raises the chunk's flag; the whole chunk must have been written.
  TILELACE_DEVICE void signal(std::uint32_t chunk) const {
    const auto s = send(chunk);
    cuda::signal(p.call.flags_at(s.peer) + s.flag, epoch);
  }
  /// Called after piece i's store is issued. Once per chunk, raises the flag of the previous chunk.
  TILELACE_DEVICE void behind(std::uint32_t i) const {
    const std::uint32_t chunk = i / each;
    const std::uint32_t of_chunk = i - chunk * each;
    if (chunk == 0 || of_chunk != min(1U, each - 1)) return;
    of_chunk == 0 ? ptx::store_wait<1>() : ptx::store_wait<2>();
    signal(chunk - 1);
  }

 private:
  [[nodiscard]] TILELACE_DEVICE schedule::PushOrder::Send send(std::uint32_t chunk) const {
    return p.push.piece(worker + static_cast<int>(chunk) * workers);
  }
};

constexpr int kSendWarps = 2;  ///< warps of a CTA that only sends; one thread of each warp copies
constexpr int kSendDepth = 4;

/// `warp`: index among the CTA's sending warps. `ring`: kRingBytes of shared memory, where other
/// CTAs keep operands. `barriers`: unused shared memory for kSendWarps * kSendDepth barriers.
template <int kRingBytes, class Params>
TILELACE_DEVICE void send_in_bulk(const Params& p, int warp, ptx::Shared ring,
                                  ptx::Shared barriers) {
  constexpr std::uint32_t kPiece = kRingBytes / (kSendWarps * kSendDepth) / 128 * 128;
  static_assert(kPiece > 0);
  ptx::wait_prerequisites();
  const std::uint32_t epoch = call_number(p.call);
  __syncwarp();  // stays: the barrier below orders this, too
  ptx::arrive_threads(kNumberBarrier, kNumberThreads);
  if ((threadIdx.x & 31) != 0) return;
  BulkRing<kSendDepth> copies{ring + warp * kSendDepth * static_cast<int>(kPiece),
                              barriers + warp * kSendDepth * 8, kPiece};
  copies.init();
  const int worker = static_cast<int>(blockIdx.x) * kSendWarps + warp;
  const BulkSends<Params> sends(p, epoch, worker, p.push.senders * kSendWarps, kPiece);
  const std::uint32_t count = sends.count();
  if (count == 0) return;
  copies.template run<Landing::copy>(count, sends, [&](std::uint32_t i) { sends.behind(i); });
  bulk_complete();
  sends.signal(count / sends.each - 1);
}

}  // namespace tilelace::cuda
