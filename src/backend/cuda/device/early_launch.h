// SPDX-License-Identifier: Apache-2.0
// Launches kernels that may start before the previous kernel ends, or that run as clusters of two.
#pragma once
#include <cuda_runtime.h>

#include "backend/cuda/device/start.h"

namespace tilelace::cuda {

/// With Start::in_pairs `ctas` must be even. The launch may be captured in a graph.
template <class... Params, class... Arguments>
cudaError_t launch_as(Start start, void (*kernel)(Params...), int ctas, int threads,
                      cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchAttribute attribute{};
  if (start == Start::in_pairs) {
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {2, 1, 1};
  } else {
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(ctas));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = start == Start::behind ? 0 : 1;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace tilelace::cuda
