// SPDX-License-Identifier: Apache-2.0
// The only file that names the driver's multicast functions. They are looked up, not only called,
// behind a permit.
#include "comm/cuda/multicast.h"

#include <fmt/format.h>

#include <utility>

#include "core/check.h"

namespace tilelace::comm {
namespace {

constexpr unsigned kVersion = 12010;

template <class Function>
Function find(const MulticastPermit& /*permit*/, const char* name, std::string_view op) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult how{};
  require_runtime(cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &how),
                  op, name);
  if (found == nullptr)
    raise(ErrorKind::system, "{}: multicast needs {}, which the driver does not have", op, name);
  return reinterpret_cast<Function>(found);
}

void require_done(CUresult result, std::string_view op, const char* name) {
  if (result == CUDA_SUCCESS) return;
  raise(ErrorKind::system, "{}: multicast needs {}, which failed: {}", op, name,
        driver_words(driver(op), result));
}

CUmulticastObjectProp properties_of(int ranks, std::size_t bytes) {
  CUmulticastObjectProp p{};
  p.numDevices = static_cast<unsigned>(ranks);
  p.size = bytes;
  p.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return p;
}

}  // namespace

std::size_t multicast_granularity(const MulticastPermit& permit, CUdevice device, int ranks,
                                  std::size_t bytes, std::string_view op) {
  require(device_attribute(device, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, op) != 0,
          "{}: multicast needs a device that supports it (CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED "
          "is 0)",
          op);
  const char* const name = "cuMulticastGetGranularity";
  const CUmulticastObjectProp properties = properties_of(ranks, bytes);
  std::size_t granularity = 0;
  // The recommended one may be hundreds of MiB.
  require_done(find<PFN_cuMulticastGetGranularity_v12010>(permit, name, op)(
                   &granularity, &properties, CU_MULTICAST_GRANULARITY_MINIMUM),
               op, name);
  return granularity;
}

MulticastObject::MulticastObject(const MulticastPermit& permit, int ranks, std::size_t bytes,
                                 std::string_view op) {
  const char* const name = "cuMulticastCreate";
  const CUmulticastObjectProp properties = properties_of(ranks, bytes);
  CUmemGenericAllocationHandle handle = 0;
  require_done(find<PFN_cuMulticastCreate_v12010>(permit, name, op)(&handle, &properties), op,
               name);
  handle_ = MemoryHandle(handle);
}

void MulticastObject::join(const MulticastPermit& permit, CUdevice device,
                           std::string_view op) const {
  const char* const name = "cuMulticastAddDevice";
  require_done(find<PFN_cuMulticastAddDevice_v12010>(permit, name, op)(handle_.get(), device), op,
               name);
}

MulticastMapping::MulticastMapping(const MulticastPermit& permit,
                                   std::shared_ptr<MulticastObject> object, CUdevice device,
                                   const MemoryHandle& memory, std::size_t bytes,
                                   std::size_t granularity, std::string_view op)
    : object_(std::move(object)), device_(device), bytes_(bytes) {
  const char* const name = "cuMulticastBindMem";
  const auto unbind = find<PFN_cuMulticastUnbind_v12010>(permit, "cuMulticastUnbind", op);
  const CUmemGenericAllocationHandle handle = object_->handle().get();
  require_done(
      find<PFN_cuMulticastBindMem_v12010>(permit, name, op)(handle, 0, memory.get(), 0, bytes, 0),
      op, name);
  try {
    auto range = std::make_unique<AddressRange>(1, bytes, granularity, op);
    range->map(0, object_->handle(), {&device, 1}, op);
    range_ = std::move(range);
  } catch (...) {
    unbind(handle, device, 0, bytes);
    throw;
  }
  unbind_ = unbind;
}

MulticastMapping::~MulticastMapping() {
  range_.reset();
  if (driver_if_alive() != nullptr) unbind_(object_->handle().get(), device_, 0, bytes_);
}

}  // namespace tilelace::comm
