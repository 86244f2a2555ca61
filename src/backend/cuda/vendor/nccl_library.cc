// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/vendor/nccl_library.h"

#include "backend/cuda/base/dynamic_library.h"

namespace tilelace::cuda {

NcclLibrary::NcclLibrary() {
  const DynamicLibrary lib({"libnccl.so.2"}, problem);
  if (!lib.open()) return;
  lib.find(version, "ncclGetVersion");
  lib.find(error_string, "ncclGetErrorString");
  lib.find(last_error, "ncclGetLastError");
  lib.find(unique_id, "ncclGetUniqueId");
  lib.find(init, "ncclCommInitRankConfig");
  lib.find(async_error, "ncclCommGetAsyncError");
  lib.find(finalize, "ncclCommFinalize");
  lib.find(destroy, "ncclCommDestroy");
  lib.find(abort, "ncclCommAbort");
  lib.find(all_gather, "ncclAllGather");
  lib.find(reduce_scatter, "ncclReduceScatter");
  lib.find(all_reduce, "ncclAllReduce");
  lib.look(all_to_all, "ncclAlltoAll");
  lib.find(group_start, "ncclGroupStart");
  lib.find(group_end, "ncclGroupEnd");
  lib.find(send, "ncclSend");
  lib.find(receive, "ncclRecv");
  lib.find(mem_alloc, "ncclMemAlloc");
  lib.find(mem_free, "ncclMemFree");
  lib.find(enroll, "ncclCommRegister");
  lib.find(withdraw, "ncclCommDeregister");
  lib.look(window_enroll, "ncclCommWindowRegister");
  lib.look(window_withdraw, "ncclCommWindowDeregister");
}

const NcclLibrary& nccl_library() {
  static const NcclLibrary loaded;
  return loaded;
}

}  // namespace tilelace::cuda
