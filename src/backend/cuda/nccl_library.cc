// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/nccl_library.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <type_traits>

namespace tilelace::cuda {

NcclLibrary::NcclLibrary() {
  void* handle = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    problem = dlerror();
    return;
  }
  const auto look = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
  };
  const auto find = [&](auto& function, const char* name) {
    look(function, name);
    if (function == nullptr) problem = fmt::format("no function {}", name);
  };
  find(version, "ncclGetVersion");
  find(error_string, "ncclGetErrorString");
  find(last_error, "ncclGetLastError");
  find(unique_id, "ncclGetUniqueId");
  find(init, "ncclCommInitRankConfig");
  find(async_error, "ncclCommGetAsyncError");
  find(finalize, "ncclCommFinalize");
  find(destroy, "ncclCommDestroy");
  find(abort, "ncclCommAbort");
  find(all_gather, "ncclAllGather");
  find(reduce_scatter, "ncclReduceScatter");
  find(all_reduce, "ncclAllReduce");
  find(mem_alloc, "ncclMemAlloc");
  find(mem_free, "ncclMemFree");
  find(enroll, "ncclCommRegister");
  find(withdraw, "ncclCommDeregister");
  look(window_enroll, "ncclCommWindowRegister");
  look(window_withdraw, "ncclCommWindowDeregister");
}

const NcclLibrary& nccl_library() {
  static const NcclLibrary loaded;
  return loaded;
}

}  // namespace tilelace::cuda
