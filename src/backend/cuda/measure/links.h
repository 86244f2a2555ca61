// SPDX-License-Identifier: Apache-2.0
// All-gathers that move bytes in different ways. All ranks at once send their source data to every
// peer or (pull) read every peer's source data, in rotated order. For nvcc and the host.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/record.h"

namespace tilelace::cuda::measure {

/// Who moves the bytes of a round.
enum class Mover : std::uint8_t { copy_engine, bulk, bulk_add, threads, threads_add };

struct Links {
  std::byte* base = nullptr;  ///< symmetric memory; rank r's part is at base + r * stride
  std::size_t stride = 0;
  std::size_t source = 0;  ///< offset of the data that a rank sends
  std::size_t slots = 0;   ///< offset of received data, slot_bytes per source rank
  std::size_t slot_bytes = 0;
  std::size_t bytes = 0;  ///< bytes per peer
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  bool pull = false;
};

/// What barriers and round trips need. Their flags are at the start of every rank's memory.
struct Meeting {
  std::byte* base = nullptr;
  std::size_t stride = 0;
  comm::Flag* epoch = nullptr;  ///< in this rank's memory
  cuda::WaitContext wait;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
};

constexpr std::uint32_t kPieceBytes = 32768;
constexpr int kDepth = 6;

/// Loads all kernels; call it once per device, before any rank waits.
cudaError_t prepare_links();
/// Enqueues one round by kernels (not for Mover::copy_engine).
cudaError_t enqueue_move(Mover mover, const Links& l, int ctas, cudaStream_t stream);
/// Enqueues a barrier of all ranks' streams.
cudaError_t enqueue_barrier(const Meeting& m, cudaStream_t stream);
/// Makes ranks 2i and 2i + 1 pass a flag back and forth `count` times, with values after `first`.
cudaError_t enqueue_round_trips(const Meeting& m, std::uint32_t first, std::uint32_t count,
                                cudaStream_t stream);
/// Writes this rank's pattern into the source.
cudaError_t enqueue_source(const Links& l, cudaStream_t stream);
constexpr int kCompareBlocks = 264;
/// Counts slot words that differ from the pattern. Each block adds its count to wrong[block].
cudaError_t enqueue_compare(const Links& l, std::uint32_t* wrong, cudaStream_t stream);

}  // namespace tilelace::cuda::measure
