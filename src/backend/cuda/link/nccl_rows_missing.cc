// SPDX-License-Identifier: Apache-2.0
// Where nccl.h was not there when the library was built.
#include "backend/cuda/link/nccl_rows.h"
#include "core/check.h"

namespace tilelace::cuda {

struct NcclRows::Impl {};

NcclRows::NcclRows(comm::Group& /*group*/, int /*device*/, WaitControl& /*control*/,
                   int /*most_ctas*/, double /*timeout_s*/) {
  raise(ErrorKind::system, "ag_gemm: transport nccl: built without nccl.h: use another transport");
}

NcclRows::~NcclRows() = default;

void NcclRows::exchange(const NcclExchange& /*what*/, cudaStream_t /*stream*/) {}

}  // namespace tilelace::cuda
