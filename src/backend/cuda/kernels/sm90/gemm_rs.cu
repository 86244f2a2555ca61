// SPDX-License-Identifier: Apache-2.0
#define TILELACE_DEVICE_LOOPS
#include "backend/cuda/kernels/ops/gemm_rs.h"
#include "backend/cuda/kernels/sm90/instances.h"
#include "backend/cuda/kernels/sm90/residual.h"

namespace tilelace::cuda {

KernelList TILELACE_KERNEL_LIST() {
  KernelList all;
  add_kernels<GemmRs, plan::can_reduce>(all, GemmUse::gemm_rs);
  add_kernels<GemmRsPairs, plan::can_pair>(all, GemmUse::gemm_rs_pairs);
  return all;
}

}  // namespace tilelace::cuda
