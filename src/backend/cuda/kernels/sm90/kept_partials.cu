// SPDX-License-Identifier: Apache-2.0
#define TILELACE_DEVICE_LOOPS
#include "backend/cuda/kernels/ops/kept_partials.h"
#include "backend/cuda/kernels/sm90/instances.h"

namespace tilelace::cuda {

KernelList TILELACE_KERNEL_LIST() {
  KernelList all;
  add_kernels<KeptBySwitch, plan::can_multimem>(all, GemmUse::kept_by_switch);
  add_kernels<KeptByPeers, plan::can_pull>(all, GemmUse::kept_by_peers);
  return all;
}

}  // namespace tilelace::cuda
