// SPDX-License-Identifier: Apache-2.0
// Litmus test of the default transport: a copy engine sends data, then the flag, as two copies in
// one stream. A kernel on every SM of the peer polls the flag. Compiled by nvcc and for the host.
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
  std::size_t flags[2] = {};    ///< offset of each slot's flags
  std::size_t rows[2] = {};     ///< offset of each slot's rows
  std::byte* input = nullptr;   ///< this rank's shard
  comm::Flag* epoch = nullptr;  ///< the epoch of the current call, in this rank's device memory
  LitmusResult* result = nullptr;
  cuda::WaitContext wait;
};

/// Loads the kernels of this file. To be called once per device, before any rank waits.
cudaError_t prepare_copy_litmus();
/// Sets flags and the epoch to `epoch`, and fills slots with poison.
cudaError_t enqueue_copy_reset(const CopyLitmus& l, std::uint32_t epoch, cudaStream_t stream);
/// Writes the next call's shard to the input.
cudaError_t enqueue_copy_fill(const CopyLitmus& l, cudaStream_t stream);
/// `ctas` CTAs, one per SM, each wait for all chunks of the call; together they check every word.
cudaError_t enqueue_copy_consume(const CopyLitmus& l, int ctas, cudaStream_t stream);

}  // namespace tilelace::gpu_test
