// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

namespace tilelace::cuda {

/// The id of the capture that this stream is part of; 0: none. Errors: usage (a broken capture),
/// system.
unsigned long long capture_of(cudaStream_t stream);

}  // namespace tilelace::cuda
