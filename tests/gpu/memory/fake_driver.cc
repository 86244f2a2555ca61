// SPDX-License-Identifier: Apache-2.0
#include "fake_driver.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace tilelace::comm::test::fake {
namespace {

std::mutex mutex;
Live alive;
thread_local std::string to_fail;
thread_local bool failed = false;
thread_local CUcontext current = nullptr;

bool fails(const char* function) {
  if (to_fail != function) return false;
  to_fail.clear();
  failed = true;
  return true;
}

void count(int Live::*what, int change) {
  const std::lock_guard lock(mutex);
  alive.*what += change;
}

/// A multicast object is a memfd, too, known by its inode whoever has a descriptor of it.
struct Object {
  unsigned devices = 0, added = 0;
};
std::map<ino_t, Object> objects;
std::map<CUdeviceptr, bool> maps_object;
std::vector<std::string> events;

ino_t inode_of(CUmemGenericAllocationHandle handle) {
  struct stat found {};
  return fstat(static_cast<int>(handle), &found) == 0 ? found.st_ino : 0;
}
Object* object_of(CUmemGenericAllocationHandle handle) {
  const auto found = objects.find(inode_of(handle));
  return found == objects.end() ? nullptr : &found->second;
}

CUresult init(unsigned) { return CUDA_SUCCESS; }
CUresult error_name(CUresult result, const char** text) {
  *text = result == CUDA_ERROR_OUT_OF_MEMORY   ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == CUDA_ERROR_NOT_PERMITTED ? "CUDA_ERROR_NOT_PERMITTED"
                                               : "CUDA_ERROR_OTHER";
  return CUDA_SUCCESS;
}
CUresult error_string(CUresult, const char** text) {
  *text = "as the fake driver says";
  return CUDA_SUCCESS;
}
CUresult device_get(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult device_uuid(CUuuid* uuid, CUdevice device) {
  std::memset(uuid->bytes, device, sizeof uuid->bytes);
  return CUDA_SUCCESS;
}
CUresult device_attribute(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED
               ? static_cast<int>(machine.fabric_supported)
           : attribute == CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED
               ? static_cast<int>(machine.multicast_supported)
               : 1;
  return CUDA_SUCCESS;
}
CUresult can_access_peer(int* can, CUdevice, CUdevice) {
  *can = static_cast<int>(machine.peer_access);
  return CUDA_SUCCESS;
}
CUresult context_get(CUcontext* context) {
  *context = current;
  return CUDA_SUCCESS;
}
CUresult context_set(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}
CUresult mem_granularity(std::size_t* bytes, const CUmemAllocationProp*,
                         CUmemAllocationGranularity_flags) {
  *bytes = 64 * 1024;
  return CUDA_SUCCESS;
}

CUresult mem_create(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                    const CUmemAllocationProp* properties, unsigned long long) {
  const bool fabric = (properties->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) != 0;
  if (fabric && !machine.fabric_granted) return CUDA_ERROR_NOT_PERMITTED;
  if (fails("cuMemCreate")) return CUDA_ERROR_OUT_OF_MEMORY;
  const int fd = memfd_create("fake", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) return CUDA_ERROR_UNKNOWN;
  void* poison = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (poison == MAP_FAILED) return CUDA_ERROR_UNKNOWN;
  std::memset(poison, 0xff, bytes);
  munmap(poison, bytes);
  count(&Live::handles, 1);
  *handle = static_cast<CUmemGenericAllocationHandle>(fd);
  return CUDA_SUCCESS;
}
CUresult mem_release(CUmemGenericAllocationHandle handle) {
  count(&Live::handles, -1);
  {
    const std::lock_guard lock(mutex);
    if (object_of(handle) != nullptr) events.emplace_back("release");
  }
  return close(static_cast<int>(handle)) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult mem_export(void* shared, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType,
                    unsigned long long) {
  if (fails("cuMemExportToShareableHandle")) return CUDA_ERROR_OUT_OF_MEMORY;
  const int fd = dup(static_cast<int>(handle));
  std::memcpy(shared, &fd, sizeof fd);
  return CUDA_SUCCESS;
}
CUresult mem_import(CUmemGenericAllocationHandle* handle, void* shared, CUmemAllocationHandleType) {
  if (fails("cuMemImportFromShareableHandle")) return CUDA_ERROR_OUT_OF_MEMORY;
  const int fd = dup(static_cast<int>(std::bit_cast<std::intptr_t>(shared)));
  if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
  count(&Live::handles, 1);
  *handle = static_cast<CUmemGenericAllocationHandle>(fd);
  return CUDA_SUCCESS;
}

CUresult mem_reserve(CUdeviceptr* address, std::size_t bytes, std::size_t, CUdeviceptr,
                     unsigned long long) {
  if (fails("cuMemAddressReserve")) return CUDA_ERROR_OUT_OF_MEMORY;
  void* at = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  count(&Live::ranges, 1);
  *address = std::bit_cast<CUdeviceptr>(at);
  return CUDA_SUCCESS;
}
CUresult mem_address_free(CUdeviceptr address, std::size_t bytes) {
  count(&Live::ranges, -1);
  return munmap(std::bit_cast<void*>(address), bytes) == 0 ? CUDA_SUCCESS
                                                           : CUDA_ERROR_INVALID_VALUE;
}
/// Not to be touched before cuMemSetAccess, as the true one.
CUresult mem_map(CUdeviceptr address, std::size_t bytes, std::size_t,
                 CUmemGenericAllocationHandle handle, unsigned long long) {
  if (fails("cuMemMap")) return CUDA_ERROR_OUT_OF_MEMORY;
  void* at = mmap(std::bit_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED,
                  static_cast<int>(handle), 0);
  if (at == MAP_FAILED) return CUDA_ERROR_INVALID_VALUE;
  count(&Live::mappings, 1);
  const std::lock_guard lock(mutex);
  maps_object[address] = object_of(handle) != nullptr;
  if (maps_object[address]) events.emplace_back("map");
  return CUDA_SUCCESS;
}
CUresult mem_unmap(CUdeviceptr address, std::size_t bytes) {
  count(&Live::mappings, -1);
  {
    const std::lock_guard lock(mutex);
    if (maps_object[address]) events.emplace_back("unmap");
  }
  void* at = mmap(std::bit_cast<void*>(address), bytes, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult mem_set_access(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access,
                        std::size_t entries) {
  if (fails("cuMemSetAccess")) return CUDA_ERROR_OUT_OF_MEMORY;
  for (std::size_t i = 1; i < entries; ++i)
    if (access[i].location.id <= access[i - 1].location.id) return CUDA_ERROR_INVALID_VALUE;
  const int done = mprotect(std::bit_cast<void*>(address), bytes, PROT_READ | PROT_WRITE);
  return done == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult multicast_granularity(std::size_t* bytes, const CUmulticastObjectProp*,
                               CUmulticastGranularity_flags) {
  if (fails("cuMulticastGetGranularity")) return CUDA_ERROR_NOT_PERMITTED;
  *bytes = 256 * 1024;
  return CUDA_SUCCESS;
}
CUresult multicast_create(CUmemGenericAllocationHandle* handle,
                          const CUmulticastObjectProp* properties) {
  if (fails("cuMulticastCreate")) return CUDA_ERROR_NOT_PERMITTED;
  if (properties->size % (256 * 1024) != 0) return CUDA_ERROR_INVALID_VALUE;
  const int fd = memfd_create("fake", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(properties->size)) != 0) return CUDA_ERROR_UNKNOWN;
  count(&Live::handles, 1);
  *handle = static_cast<CUmemGenericAllocationHandle>(fd);
  const std::lock_guard lock(mutex);
  objects[inode_of(*handle)] = {properties->numDevices, 0};
  events.push_back("create " + std::to_string(properties->numDevices));
  return CUDA_SUCCESS;
}
CUresult multicast_add(CUmemGenericAllocationHandle handle, CUdevice) {
  if (fails("cuMulticastAddDevice")) return CUDA_ERROR_NOT_PERMITTED;
  const std::lock_guard lock(mutex);
  Object* const object = object_of(handle);
  if (object == nullptr || object->added == object->devices) return CUDA_ERROR_INVALID_VALUE;
  ++object->added;
  events.emplace_back("add");
  return CUDA_SUCCESS;
}
/// As the true one: not before all devices are there.
CUresult multicast_bind(CUmemGenericAllocationHandle handle, std::size_t,
                        CUmemGenericAllocationHandle, std::size_t, std::size_t,
                        unsigned long long) {
  if (fails("cuMulticastBindMem")) return CUDA_ERROR_NOT_PERMITTED;
  const std::lock_guard lock(mutex);
  const Object* const object = object_of(handle);
  if (object == nullptr || object->added != object->devices) return CUDA_ERROR_INVALID_VALUE;
  ++alive.bound;
  events.emplace_back("bind");
  return CUDA_SUCCESS;
}
CUresult multicast_unbind(CUmemGenericAllocationHandle handle, CUdevice, std::size_t, std::size_t) {
  const std::lock_guard lock(mutex);
  if (object_of(handle) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  --alive.bound;
  events.emplace_back("unbind");
  return CUDA_SUCCESS;
}

/// What nobody calls here.
CUresult unused() { return CUDA_ERROR_NOT_SUPPORTED; }

template <class Function>
void* address_of(Function* function) {
  return std::bit_cast<void*>(function);
}

const std::map<std::string, void*>& functions() {
  static const std::map<std::string, void*> table = {
      {"cuInit", address_of(&init)},
      {"cuGetErrorName", address_of(&error_name)},
      {"cuGetErrorString", address_of(&error_string)},
      {"cuDeviceGet", address_of(&device_get)},
      {"cuDeviceGetUuid", address_of(&device_uuid)},
      {"cuDeviceGetAttribute", address_of(&device_attribute)},
      {"cuDeviceCanAccessPeer", address_of(&can_access_peer)},
      {"cuCtxGetCurrent", address_of(&context_get)},
      {"cuCtxSetCurrent", address_of(&context_set)},
      {"cuMemGetAllocationGranularity", address_of(&mem_granularity)},
      {"cuMemAddressReserve", address_of(&mem_reserve)},
      {"cuMemAddressFree", address_of(&mem_address_free)},
      {"cuMemCreate", address_of(&mem_create)},
      {"cuMemRelease", address_of(&mem_release)},
      {"cuMemMap", address_of(&mem_map)},
      {"cuMemUnmap", address_of(&mem_unmap)},
      {"cuMemSetAccess", address_of(&mem_set_access)},
      {"cuMemExportToShareableHandle", address_of(&mem_export)},
      {"cuMemImportFromShareableHandle", address_of(&mem_import)},
      {"cuMulticastGetGranularity", address_of(&multicast_granularity)},
      {"cuMulticastCreate", address_of(&multicast_create)},
      {"cuMulticastAddDevice", address_of(&multicast_add)},
      {"cuMulticastBindMem", address_of(&multicast_bind)},
      {"cuMulticastUnbind", address_of(&multicast_unbind)}};
  return table;
}

}  // namespace

void fail_next(const std::string& function) {
  to_fail = function;
  failed = false;
}
bool has_failed() { return failed; }
Live live() {
  const std::lock_guard lock(mutex);
  return alive;
}
std::vector<std::string> multicast_events() {
  const std::lock_guard lock(mutex);
  return std::exchange(events, {});
}

}  // namespace tilelace::comm::test::fake

namespace fake = tilelace::comm::test::fake;

extern "C" {
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long, cudaDriverEntryPointQueryResult*) {
  const auto found = fake::functions().find(name);
  *function = found == fake::functions().end() ? fake::address_of(&fake::unused) : found->second;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = fake::kDevices;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  fake::current = std::bit_cast<CUcontext>(static_cast<std::intptr_t>(device + 1));
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaMemsetAsync(void* at, int value, std::size_t bytes, cudaStream_t) {
  if (fake::fails("cudaMemset")) return cudaErrorMemoryAllocation;
  std::memset(at, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorMemoryAllocation"; }
const char* cudaGetErrorString(cudaError_t) { return "as the fake runtime says"; }
}
