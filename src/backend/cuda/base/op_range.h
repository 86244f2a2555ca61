// SPDX-License-Identifier: Apache-2.0
// NVTX ranges in the domain "tilelace": they show in profilers which op a host thread enqueues.
// Without a profiler a range only checks a pointer.
#pragma once
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TILELACE_HAS_NVTX 1
#endif

namespace tilelace::cuda {

class OpRange {
 public:
  /// `name` must live as long as the range.
#ifdef TILELACE_HAS_NVTX
  explicit OpRange(const char* name) {
    nvtxEventAttributes_t event{};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.messageType = NVTX_MESSAGE_TYPE_ASCII;
    event.message.ascii = name;
    nvtxDomainRangePushEx(domain(), &event);
  }
  ~OpRange() { nvtxDomainRangePop(domain()); }
#else
  explicit OpRange(const char* /*name*/) {}
  ~OpRange() = default;
#endif
  OpRange(const OpRange&) = delete;
  OpRange& operator=(const OpRange&) = delete;

 private:
#ifdef TILELACE_HAS_NVTX
  static nvtxDomainHandle_t domain() {
    static const nvtxDomainHandle_t ours = nvtxDomainCreateA("tilelace");
    return ours;
  }
#endif
};

}  // namespace tilelace::cuda
