// SPDX-License-Identifier: Apache-2.0
// The driver's functions, looked up at run time, so that a program can start without a driver. A
// missing driver is an error only when the program first needs one of these functions.
#pragma once
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

namespace tilelace::comm {

struct Driver {
  PFN_cuInit_v2000 init = nullptr;
  PFN_cuGetErrorName_v6000 error_name = nullptr;
  PFN_cuGetErrorString_v6000 error_string = nullptr;
  PFN_cuDeviceGet_v2000 device_get = nullptr;
  PFN_cuDeviceGetName_v2000 device_name = nullptr;
  PFN_cuDeviceGetUuid_v11040 device_uuid = nullptr;
  PFN_cuDeviceTotalMem_v3020 device_total_mem = nullptr;
  PFN_cuDeviceGetAttribute_v2000 device_attribute = nullptr;
  PFN_cuDeviceCanAccessPeer_v4000 can_access_peer = nullptr;
  PFN_cuDeviceGetP2PAttribute_v8000 p2p_attribute = nullptr;
  PFN_cuCtxGetCurrent_v4000 context_get = nullptr;
  PFN_cuCtxSetCurrent_v4000 context_set = nullptr;
  PFN_cuMemGetAllocationGranularity_v10020 mem_granularity = nullptr;
  PFN_cuMemAddressReserve_v10020 mem_reserve = nullptr;
  PFN_cuMemAddressFree_v10020 mem_address_free = nullptr;
  PFN_cuMemCreate_v10020 mem_create = nullptr;
  PFN_cuMemRelease_v10020 mem_release = nullptr;
  PFN_cuMemMap_v10020 mem_map = nullptr;
  PFN_cuMemUnmap_v10020 mem_unmap = nullptr;
  PFN_cuMemSetAccess_v10020 mem_set_access = nullptr;
  PFN_cuMemExportToShareableHandle_v10020 mem_export = nullptr;
  PFN_cuMemImportFromShareableHandle_v10020 mem_import = nullptr;
};

/// The table of functions, filled on the first call. Error: system (`op` begins its text).
const Driver& driver(std::string_view op);

/// The table, or null while the process ends, so that destructors then release nothing.
const Driver* driver_if_alive() noexcept;

/// An error in the driver's words: "CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
std::string driver_words(const Driver& driver, CUresult result);

/// Throws a system error `op: what failed: <the driver's words>` unless `result` is success.
void require_driver(CUresult result, std::string_view op, std::string_view what);
void require_runtime(cudaError_t result, std::string_view op, std::string_view what);

/// The driver's handle of a CUDA ordinal. Errors: usage (no such device), system.
CUdevice device_handle(int device, std::string_view op);

/// The attribute's value; 0 if the driver does not know the attribute.
int device_attribute(CUdevice device, CUdevice_attribute attribute, std::string_view op);

/// Makes a device current in this thread, and restores the previous one at the end. Unlike
/// cudaSetDevice(previous), it makes no context on a device that had none. Cheap if the device is
/// already current. Inside its scope no other device may become current.
class DeviceScope {
 public:
  DeviceScope(int device, std::string_view op);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  CUcontext before_ = nullptr;
  bool changed_ = false;
};

}  // namespace tilelace::comm
