// SPDX-License-Identifier: Apache-2.0
#include "comm/cuda/address_range.h"

#include <fmt/format.h>

#include <bit>
#include <cstdint>

namespace tilelace::comm {
namespace {

CUmemAllocationProp properties_of(CUdevice device, bool fabric, std::string_view op) {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = device;
  const int types =
      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | (fabric ? CU_MEM_HANDLE_TYPE_FABRIC : 0);
  p.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(types);
  // What network libraries ask of memory that they are to register.
  if (device_attribute(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, op) !=
      0)
    p.allocFlags.gpuDirectRDMACapable = 1;
  return p;
}

}  // namespace

MemoryHandle::~MemoryHandle() {
  if (!held_) return;
  if (const Driver* d = driver_if_alive()) d->mem_release(handle_);
}

std::size_t recommended_granularity(CUdevice device, std::string_view op) {
  const CUmemAllocationProp properties = properties_of(device, false, op);
  std::size_t granularity = 0;
  require_driver(
      driver(op).mem_granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
      op, "cuMemGetAllocationGranularity");
  return granularity;
}

PhysicalMemory create_memory(CUdevice device, std::size_t bytes, std::string_view op) {
  const Driver& d = driver(op);
  PhysicalMemory made;
  CUmemGenericAllocationHandle handle = 0;
  if (device_attribute(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, op) == 0) {
    made.fabric_reason = "the device does not support fabric handles";
  } else {
    const CUmemAllocationProp properties = properties_of(device, true, op);
    const CUresult result = d.mem_create(&handle, bytes, &properties, 0);
    made.fabric = result == CUDA_SUCCESS;
    if (!made.fabric) made.fabric_reason = "cuMemCreate: " + driver_words(d, result);
  }
  if (!made.fabric) {
    const CUmemAllocationProp properties = properties_of(device, false, op);
    require_driver(d.mem_create(&handle, bytes, &properties, 0), op,
                   fmt::format("cuMemCreate of {} bytes on device {}", bytes, device));
  }
  made.handle = MemoryHandle(handle);
  return made;
}

UniqueFd export_memory(const MemoryHandle& memory, std::string_view op) {
  int fd = -1;
  require_driver(
      driver(op).mem_export(&fd, memory.get(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), op,
      "cuMemExportToShareableHandle");
  return UniqueFd(fd);
}

MemoryHandle import_memory(int fd, std::string_view op) {
  CUmemGenericAllocationHandle handle = 0;
  // The driver takes the descriptor itself for a pointer.
  void* const shared = std::bit_cast<void*>(static_cast<std::intptr_t>(fd));
  require_driver(driver(op).mem_import(&handle, shared, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                 op, "cuMemImportFromShareableHandle");
  return MemoryHandle(handle);
}

AddressRange::AddressRange(int ranks, std::size_t stride, std::size_t alignment,
                           std::string_view op)
    : stride_(stride), mapped_(static_cast<std::size_t>(ranks)) {
  const std::size_t total = stride * mapped_.size();
  require_driver(driver(op).mem_reserve(&base_, total, alignment, 0, 0), op,
                 fmt::format("cuMemAddressReserve of {} bytes", total));
}

AddressRange::~AddressRange() {
  const Driver* d = driver_if_alive();
  if (d == nullptr) return;
  for (std::size_t r = 0; r < mapped_.size(); ++r)
    if (mapped_[r] != 0) d->mem_unmap(address(static_cast<int>(r)), stride_);
  d->mem_address_free(base_, stride_ * mapped_.size());
}

void AddressRange::map(int rank, const MemoryHandle& memory, std::span<const CUdevice> devices,
                       std::string_view op) {
  const Driver& d = driver(op);
  require_driver(d.mem_map(address(rank), stride_, 0, memory.get(), 0), op,
                 fmt::format("cuMemMap of {} bytes of rank {}", stride_, rank));
  mapped_[static_cast<std::size_t>(rank)] = 1;
  std::vector<CUmemAccessDesc> access;
  for (const CUdevice device : devices) {
    CUmemAccessDesc& entry = access.emplace_back();
    entry.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    entry.location.id = device;
    entry.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  require_driver(d.mem_set_access(address(rank), stride_, access.data(), access.size()), op,
                 fmt::format("cuMemSetAccess of device {} to the memory of rank {}",
                             fmt::join(devices, ", "), rank));
}

}  // namespace tilelace::comm
