// SPDX-License-Identifier: Apache-2.0
// For each element type, the Landing (proxy.h) that adds to what is at the destination.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backend/cuda/device/proxy.h"

namespace tilelace::cuda {

template <class Element>
constexpr Landing kAdds = Landing::add_bf16;
template <>
constexpr Landing kAdds<__half> = Landing::add_fp16;

}  // namespace tilelace::cuda
