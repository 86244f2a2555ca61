// SPDX-License-Identifier: Apache-2.0
#include "machine/driver.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

#include "machine/machine.h"

namespace tilelace::emulated {
namespace {

std::mutex mutex;
std::map<const std::byte*, Memory>& known() {
  static auto* const all = new std::map<const std::byte*, Memory>;
  return *all;
}

constexpr std::size_t kGranularity = 1 << 16;
constexpr int kNaN = 0xFE;
constexpr int kDeviceMemory = 2;  // cudaMemoryTypeDevice

// ---- devices ----
CUresult CUDAAPI init(unsigned) { return CUDA_SUCCESS; }
CUresult CUDAAPI error_text(CUresult, const char** text) {
  *text = "CUDA_ERROR";
  return CUDA_SUCCESS;
}
CUresult CUDAAPI device_get(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI device_name(char* name, int length, CUdevice) {
  std::strncpy(name, "emulated GPU", static_cast<std::size_t>(length));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI device_uuid(CUuuid* uuid, CUdevice device) {
  std::memset(uuid->bytes, 0, sizeof uuid->bytes);
  uuid->bytes[0] = static_cast<char>(device + 1);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI device_total_mem(std::size_t* bytes, CUdevice) {
  *bytes = std::size_t{1} << 34U;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI device_attribute_of(int* value, CUdevice_attribute attribute, CUdevice) {
  *value = device_attribute(static_cast<int>(attribute));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI can_access_peer(int* can, CUdevice, CUdevice) {
  *can = 1;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI p2p_attribute(int* value, CUdevice_P2PAttribute, CUdevice, CUdevice) {
  *value = 1;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI context_get(CUcontext* context) {
  *context = reinterpret_cast<CUcontext>(std::uintptr_t{1});
  return CUDA_SUCCESS;
}
CUresult CUDAAPI context_set(CUcontext) { return CUDA_SUCCESS; }

// ---- memory that is mapped: files without a name ----
/// The devices whose memory they are.
std::map<ino_t, int>& files() {
  static std::map<ino_t, int> all;
  return all;
}
std::mutex files_mutex;
void note_file(int file, int device) {
  struct stat made {};
  fstat(file, &made);
  const std::scoped_lock lock(files_mutex);
  files()[made.st_ino] = device;
}
int device_of_file(ino_t file) {
  const std::scoped_lock lock(files_mutex);
  const auto found = files().find(file);
  return found == files().end() ? 0 : found->second;
}
CUresult CUDAAPI mem_granularity(std::size_t* bytes, const CUmemAllocationProp*,
                                 CUmemAllocationGranularity_flags) {
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI mem_reserve(CUdeviceptr* at, std::size_t bytes, std::size_t alignment, CUdeviceptr,
                             unsigned long long) {
  const std::size_t align = alignment > kGranularity ? alignment : kGranularity;
  void* p =
      mmap(nullptr, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *at = (reinterpret_cast<CUdeviceptr>(p) + align - 1) / align * align;
  return CUDA_SUCCESS;
}
CUresult CUDAAPI mem_address_free(CUdeviceptr at, std::size_t bytes) {
  munmap(reinterpret_cast<void*>(at), bytes);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI mem_create(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                            const CUmemAllocationProp* asked, unsigned long long) {
  const int file = memfd_create("emulated GPU", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return CUDA_ERROR_OUT_OF_MEMORY;
  note_file(file, asked->location.id);
  *handle = static_cast<CUmemGenericAllocationHandle>(file);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI mem_release(CUmemGenericAllocationHandle handle) {
  close(static_cast<int>(handle));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI mem_map(CUdeviceptr at, std::size_t bytes, std::size_t offset,
                         CUmemGenericAllocationHandle handle, unsigned long long) {
  auto* const to = reinterpret_cast<void*>(at);
  void* p = mmap(to, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 static_cast<int>(handle), static_cast<off_t>(offset));
  if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  struct stat file {};
  fstat(static_cast<int>(handle), &file);
  note_memory(to, {bytes, device_of_file(file.st_ino), 2});
  order::add_region(to, bytes, {file.st_ino, static_cast<std::size_t>(file.st_size), offset});
  return CUDA_SUCCESS;
}
CUresult CUDAAPI mem_unmap(CUdeviceptr at, std::size_t bytes) {
  auto* const from = reinterpret_cast<void*>(at);
  forget_memory(from);
  order::remove_region(from);
  mmap(from, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return CUDA_SUCCESS;
}
CUresult CUDAAPI mem_set_access(CUdeviceptr, std::size_t, const CUmemAccessDesc*, std::size_t) {
  return CUDA_SUCCESS;
}
CUresult CUDAAPI mem_export(void* file, CUmemGenericAllocationHandle handle,
                            CUmemAllocationHandleType, unsigned long long) {
  *static_cast<int*>(file) = dup(static_cast<int>(handle));
  return CUDA_SUCCESS;
}
CUresult CUDAAPI mem_import(CUmemGenericAllocationHandle* handle, void* file,
                            CUmemAllocationHandleType) {
  *handle = static_cast<CUmemGenericAllocationHandle>(
      dup(static_cast<int>(reinterpret_cast<std::intptr_t>(file))));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI encode_tiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t dims, void* data,
                              const cuuint64_t* extents, const cuuint64_t* strides,
                              const cuuint32_t* box, const cuuint32_t*, CUtensorMapInterleave,
                              CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                              CUtensorMapFloatOOBfill) {
  static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap));
  if (reinterpret_cast<std::uintptr_t>(data) % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  if (dims != 2 || box[0] * 2 % 16 != 0 || strides[0] % 16 != 0) return CUDA_ERROR_INVALID_VALUE;
  TensorMap made{};
  made.data = static_cast<std::byte*>(data);
  made.swizzled = swizzle != CU_TENSOR_MAP_SWIZZLE_NONE;
  made.stride = strides[0];
  for (int i = 0; i < 2; ++i) {
    if (extents[i] == 0 || box[i] == 0 || box[i] > 256) return CUDA_ERROR_INVALID_VALUE;
    made.extents[i] = extents[i];
    made.box[i] = box[i];
  }
  std::memset(map, 0, sizeof *map);
  std::memcpy(map, &made, sizeof made);
  return CUDA_SUCCESS;
}

}  // namespace

void note_memory(void* p, const Memory& memory) {
  const std::scoped_lock lock(mutex);
  known()[static_cast<std::byte*>(p)] = memory;
}
void forget_memory(void* p) {
  const std::scoped_lock lock(mutex);
  known().erase(static_cast<std::byte*>(p));
}

constexpr std::size_t kUnit = order::kRegionUnit;
std::size_t mapped_bytes(std::size_t bytes) { return (bytes / kUnit + 1) * kUnit; }

std::byte* map_region(std::size_t bytes) {
  void* const mapped = mmap(nullptr, bytes + kUnit, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapped);
  const std::size_t before = kUnit - reinterpret_cast<std::uintptr_t>(mapped) % kUnit;
  std::byte* const p = begin + before;
  munmap(begin, before);
  if (before < kUnit) munmap(p + bytes, kUnit - before);
  return p;
}

void* take_memory(std::size_t bytes, int device, int type) {
  const std::size_t all = mapped_bytes(bytes);
  std::byte* const p = map_region(all);
  if (p == nullptr) return nullptr;
  std::memset(p, kNaN, bytes);
  note_memory(p, {bytes, device, type});
  if (type == kDeviceMemory) order::add_region(p, all, {});
  return p;
}
void give_memory(void* p) {
  if (p == nullptr) return;
  const std::size_t all = mapped_bytes(find_memory(p).bytes);
  forget_memory(p);
  order::remove_region(p);
  // Whoever still uses it is stopped. The last addresses are nobody else's; a process may not have
  // many more mappings.
  constexpr std::size_t kKept = 8192;
  static std::deque<std::pair<void*, std::size_t>> given;
  mprotect(p, all, PROT_NONE);
  madvise(p, all, MADV_DONTNEED);
  const std::scoped_lock lock(mutex);
  given.emplace_back(p, all);
  if (given.size() <= kKept) return;
  munmap(given.front().first, given.front().second);
  given.pop_front();
}

Memory find_memory(const void* p) {
  const auto* const at = static_cast<const std::byte*>(p);
  const std::scoped_lock lock(mutex);
  auto after = known().upper_bound(at);
  if (after == known().begin()) return {};
  --after;
  return at < after->first + after->second.bytes ? after->second : Memory{};
}

int device_attribute(int attribute) {
  switch (static_cast<CUdevice_attribute>(attribute)) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return Machine::get().multiprocessors();
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return Machine::get().capability() / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return Machine::get().capability() % 10;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 50 << 20;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: return 3;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED: return 1;
    default: return 0;
  }
}

void* driver_function(const char* name) {
  const std::pair<std::string_view, void*> functions[] = {
      {"cuInit", reinterpret_cast<void*>(init)},
      {"cuGetErrorName", reinterpret_cast<void*>(error_text)},
      {"cuGetErrorString", reinterpret_cast<void*>(error_text)},
      {"cuDeviceGet", reinterpret_cast<void*>(device_get)},
      {"cuDeviceGetName", reinterpret_cast<void*>(device_name)},
      {"cuDeviceGetUuid", reinterpret_cast<void*>(device_uuid)},
      {"cuDeviceTotalMem", reinterpret_cast<void*>(device_total_mem)},
      {"cuDeviceGetAttribute", reinterpret_cast<void*>(device_attribute_of)},
      {"cuDeviceCanAccessPeer", reinterpret_cast<void*>(can_access_peer)},
      {"cuDeviceGetP2PAttribute", reinterpret_cast<void*>(p2p_attribute)},
      {"cuCtxGetCurrent", reinterpret_cast<void*>(context_get)},
      {"cuCtxSetCurrent", reinterpret_cast<void*>(context_set)},
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(mem_granularity)},
      {"cuMemAddressReserve", reinterpret_cast<void*>(mem_reserve)},
      {"cuMemAddressFree", reinterpret_cast<void*>(mem_address_free)},
      {"cuMemCreate", reinterpret_cast<void*>(mem_create)},
      {"cuMemRelease", reinterpret_cast<void*>(mem_release)},
      {"cuMemMap", reinterpret_cast<void*>(mem_map)},
      {"cuMemUnmap", reinterpret_cast<void*>(mem_unmap)},
      {"cuMemSetAccess", reinterpret_cast<void*>(mem_set_access)},
      {"cuMemExportToShareableHandle", reinterpret_cast<void*>(mem_export)},
      {"cuMemImportFromShareableHandle", reinterpret_cast<void*>(mem_import)},
      {"cuTensorMapEncodeTiled", reinterpret_cast<void*>(encode_tiled)},
  };
  for (const auto& [known_name, function] : functions)
    if (known_name == name) return function;
  return nullptr;
}

}  // namespace tilelace::emulated
