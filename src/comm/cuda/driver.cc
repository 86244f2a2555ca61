// SPDX-License-Identifier: Apache-2.0
#include "comm/cuda/driver.h"

#include <fmt/format.h>

#include <cstdlib>

#include "core/check.h"

namespace tilelace::comm {
namespace {

/// The functions' types are those of CUDA 12.0, whatever newer forms the driver has.
constexpr unsigned kVersion = 12000;

struct Loaded {
  Driver table;
  std::string problem;  ///< why there is no table; empty: there is one
};

class Loader {
 public:
  explicit Loader(Loaded& loaded) : loaded_(loaded) {}

  template <class Function>
  void get(const char* name, Function& function) {
    if (!loaded_.problem.empty()) return;
    void* found = nullptr;
    cudaDriverEntryPointQueryResult how{};
    const cudaError_t error =
        cudaGetDriverEntryPointByVersion(name, &found, kVersion, cudaEnableDefault, &how);
    if (error != cudaSuccess)
      loaded_.problem = fmt::format("CUDA driver: {} ({}); a driver for CUDA 13 or later is needed",
                                    cudaGetErrorName(error), cudaGetErrorString(error));
    else if (found == nullptr)
      loaded_.problem = fmt::format(
          "CUDA driver: it has no {} of version {}; a driver for CUDA 13 or later is needed", name,
          kVersion);
    function = reinterpret_cast<Function>(found);
  }

 private:
  Loaded& loaded_;
};

bool process_is_ending = false;

Loaded load() {
  Loaded loaded;
  Driver& d = loaded.table;
  Loader loader(loaded);
  loader.get("cuInit", d.init);
  loader.get("cuGetErrorName", d.error_name);
  loader.get("cuGetErrorString", d.error_string);
  loader.get("cuDeviceGet", d.device_get);
  loader.get("cuDeviceGetName", d.device_name);
  loader.get("cuDeviceGetUuid", d.device_uuid);
  loader.get("cuDeviceTotalMem", d.device_total_mem);
  loader.get("cuDeviceGetAttribute", d.device_attribute);
  loader.get("cuDeviceCanAccessPeer", d.can_access_peer);
  loader.get("cuDeviceGetP2PAttribute", d.p2p_attribute);
  loader.get("cuCtxGetCurrent", d.context_get);
  loader.get("cuCtxSetCurrent", d.context_set);
  loader.get("cuMemGetAllocationGranularity", d.mem_granularity);
  loader.get("cuMemAddressReserve", d.mem_reserve);
  loader.get("cuMemAddressFree", d.mem_address_free);
  loader.get("cuMemCreate", d.mem_create);
  loader.get("cuMemRelease", d.mem_release);
  loader.get("cuMemMap", d.mem_map);
  loader.get("cuMemUnmap", d.mem_unmap);
  loader.get("cuMemSetAccess", d.mem_set_access);
  loader.get("cuMemExportToShareableHandle", d.mem_export);
  loader.get("cuMemImportFromShareableHandle", d.mem_import);
  if (!loaded.problem.empty()) return loaded;
  const CUresult started = d.init(0);
  if (started != CUDA_SUCCESS)
    loaded.problem = fmt::format("cuInit failed: {}", driver_words(d, started));
  // Runs before the destructors of objects that were static before the first use of the driver.
  if (std::atexit([] { process_is_ending = true; }) != 0)
    loaded.problem = "cannot register an atexit handler";
  return loaded;
}

const Loaded& loaded_once() {
  static const auto* loaded = new Loaded(load());  // never destroyed: destructors may need it
  return *loaded;
}

}  // namespace

const Driver& driver(std::string_view op) {
  const Loaded& loaded = loaded_once();
  if (!loaded.problem.empty()) raise(ErrorKind::system, "{}: {}", op, loaded.problem);
  return loaded.table;
}

const Driver* driver_if_alive() noexcept {
  if (process_is_ending) return nullptr;
  const Loaded& loaded = loaded_once();
  return loaded.problem.empty() ? &loaded.table : nullptr;
}

std::string driver_words(const Driver& driver, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.error_name(result, &name) != CUDA_SUCCESS || name == nullptr)
    return fmt::format("CUDA error {}", static_cast<int>(result));
  if (driver.error_string(result, &text) != CUDA_SUCCESS || text == nullptr) return name;
  return fmt::format("{} ({})", name, text);
}

void require_driver(CUresult result, std::string_view op, std::string_view what) {
  if (result == CUDA_SUCCESS) return;
  raise(ErrorKind::system, "{}: {} failed: {}", op, what, driver_words(driver(op), result));
}

void require_runtime(cudaError_t result, std::string_view op, std::string_view what) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // or the next call of the user reports it again
  raise(ErrorKind::system, "{}: {} failed: {} ({})", op, what, cudaGetErrorName(result),
        cudaGetErrorString(result));
}

CUdevice device_handle(int device, std::string_view op) {
  const Driver& d = driver(op);
  int count = 0;
  require_runtime(cudaGetDeviceCount(&count), op, "cudaGetDeviceCount");
  require(device >= 0 && device < count,
          "{}: device: got {} with {} devices visible, expected 0 to {}", op, device, count,
          count - 1);
  CUdevice handle = 0;
  require_driver(d.device_get(&handle, device), op, "cuDeviceGet");
  return handle;
}

int device_attribute(CUdevice device, CUdevice_attribute attribute, std::string_view op) {
  int value = 0;
  return driver(op).device_attribute(&value, attribute, device) == CUDA_SUCCESS ? value : 0;
}

namespace {

/// What this thread's last cudaSetDevice made current.
struct Selected {
  int device = -1;
  CUcontext context = nullptr;
};
thread_local Selected selected;

}  // namespace

DeviceScope::DeviceScope(int device, std::string_view op) {
  const Driver& d = driver(op);
  require_driver(d.context_get(&before_), op, "cuCtxGetCurrent");
  if (before_ != nullptr && selected.device == device && selected.context == before_) return;
  const cudaError_t status = cudaSetDevice(device);
  if (status != cudaSuccess) require_runtime(status, op, fmt::format("cudaSetDevice({})", device));
  changed_ = true;
  selected.device = d.context_get(&selected.context) == CUDA_SUCCESS ? device : -1;
}

DeviceScope::~DeviceScope() {
  if (!changed_) return;
  if (const Driver* d = driver_if_alive()) d->context_set(before_);
}

}  // namespace tilelace::comm
