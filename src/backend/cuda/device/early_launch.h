// SPDX-License-Identifier: Apache-2.0
// Launches of kernels that may begin under the end of the kernel before them.
#pragma once
#include <cuda_runtime.h>

namespace tilelace::cuda {

/// `early`: it begins there, and waits itself (ptx::wait_prerequisites). May be captured.
template <class... Params, class... Arguments>
cudaError_t launch_early(void (*kernel)(Params...), int ctas, int threads, bool early,
                         cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(ctas));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace tilelace::cuda
