// SPDX-License-Identifier: Apache-2.0
// Litmus of the default transport: copy-engine data, then the flag as a second copy of the same
// stream, seen by kernels that fill every SM of the peer and poll. Read by nvcc and the host.
#pragma once
#include <cuda_runtime_api.h>

#include "backend/cuda/device/record.h"
#include "litmus.h"
#include "schedule/ag_gemm.h"

namespace tilelace::gpu_test {

constexpr std::int64_t kCopyRowBytes = 1024;

struct CopyLitmus {
  schedule::AgGemm schedule;
  std::byte* base = nullptr;
  std::size_t stride = 0;
  std::size_t flags[2] = {};  ///< offsets of the slots' flags and rows
  std::size_t rows[2] = {};
  std::byte* input = nullptr;   ///< own shard
  comm::Flag* epoch = nullptr;  ///< own device memory
  LitmusResult* result = nullptr;
  cuda::WaitContext wait;
};

/// Loads the kernels of this file; to be called once a device, before any rank waits.
cudaError_t prepare_copy_litmus();
/// Flags and the epoch to `epoch`, slots to poison.
cudaError_t enqueue_copy_reset(const CopyLitmus& l, std::uint32_t epoch, cudaStream_t stream);
/// The next call's shard into the input.
cudaError_t enqueue_copy_fill(const CopyLitmus& l, cudaStream_t stream);
/// One CTA an SM that waits for all chunks of the call and checks every word.
cudaError_t enqueue_copy_consume(const CopyLitmus& l, int ctas, cudaStream_t stream);

}  // namespace tilelace::gpu_test
