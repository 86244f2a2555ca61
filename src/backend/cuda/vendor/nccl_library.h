// SPDX-License-Identifier: Apache-2.0
// libnccl, looked up at run time, so that a program also starts without it.
#pragma once
#include <nccl.h>

#include <cstddef>
#include <string>

namespace tilelace::cuda {

/// The functions of libnccl that Tilelace uses.
struct NcclLibrary {
  decltype(&ncclGetVersion) version = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclGetLastError) last_error = nullptr;
  decltype(&ncclGetUniqueId) unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclCommFinalize) finalize = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  /// ncclAlltoAll, which headers before 2.28 lack; null if the library lacks it.
  ncclResult_t (*all_to_all)(const void*, void*, std::size_t, ncclDataType_t, ncclComm_t,
                             cudaStream_t) = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclMemAlloc) mem_alloc = nullptr;
  decltype(&ncclMemFree) mem_free = nullptr;
  decltype(&ncclCommRegister) enroll = nullptr;
  decltype(&ncclCommDeregister) withdraw = nullptr;
  decltype(&ncclCommWindowRegister) window_enroll = nullptr;      // null before 2.27
  decltype(&ncclCommWindowDeregister) window_withdraw = nullptr;  // null before 2.27
  std::string problem;  ///< why libnccl cannot be used; empty: it can

  NcclLibrary();
};

/// The library, which the first call loads.
const NcclLibrary& nccl_library();

}  // namespace tilelace::cuda
