// SPDX-License-Identifier: Apache-2.0
// An all-gather by each way of moving bytes: every rank sends its source to (or fetches from) every
// peer, all at once, in rotated order. Read by nvcc and the host.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/record.h"

namespace tilelace::cuda::measure {

/// Who moves the bytes of a round.
enum class Mover : std::uint8_t { copy_engine, bulk, bulk_add, threads, threads_add };

struct Links {
  std::byte* base = nullptr;  ///< symmetric memory, rank r's at base + r * stride
  std::size_t stride = 0;
  std::size_t source = 0;  ///< offset of what a rank sends
  std::size_t slots = 0;   ///< offset of what it gets, slot_bytes from each rank
  std::size_t slot_bytes = 0;
  std::size_t bytes = 0;  ///< a peer
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  bool pull = false;
};

/// The flags of barriers and round trips, at the start of every rank's memory.
struct Meeting {
  std::byte* base = nullptr;
  std::size_t stride = 0;
  comm::Flag* epoch = nullptr;  ///< own memory
  cuda::WaitContext wait;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
};

constexpr std::uint32_t kPieceBytes = 32768;
constexpr int kDepth = 6;

/// Loads all kernels; to be called once a device, before any rank waits.
cudaError_t prepare_links();
/// One round by kernels (not Mover::copy_engine).
cudaError_t enqueue_move(Mover mover, const Links& l, int ctas, cudaStream_t stream);
/// A barrier of all ranks' streams.
cudaError_t enqueue_barrier(const Meeting& m, cudaStream_t stream);
/// Rank 2i and rank 2i + 1 hand a flag to and fro.
cudaError_t enqueue_round_trips(const Meeting& m, std::uint32_t first, std::uint32_t count,
                                cudaStream_t stream);
/// The pattern of this rank into the source.
cudaError_t enqueue_source(const Links& l, cudaStream_t stream);
constexpr int kCompareBlocks = 264;
/// Words of the slots that are not their rank's pattern, added to kCompareBlocks counts.
cudaError_t enqueue_compare(const Links& l, std::uint32_t* wrong, cudaStream_t stream);

}  // namespace tilelace::cuda::measure
