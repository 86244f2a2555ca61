// SPDX-License-Identifier: Apache-2.0
// What a profiler sees of OpRange: this program takes the profiler's place.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/cuda/base/op_range.h"

#ifdef TILELACE_HAS_NVTX
namespace {

std::vector<std::string> seen;  // NOLINT: callbacks take no context

nvtxDomainHandle_t NVTX_API create(const char* name) {
  seen.push_back(std::string("domain ") + name);
  return reinterpret_cast<nvtxDomainHandle_t>(&seen);
}
int NVTX_API push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  seen.push_back(
      std::string(domain == reinterpret_cast<nvtxDomainHandle_t>(&seen) ? "push " : "? ") +
      event->message.ascii);
  return 0;
}
int NVTX_API pop(nvtxDomainHandle_t /*domain*/) {
  seen.emplace_back("pop");
  return 0;
}

template <class Function>
void put(NvtxFunctionTable table, int id, Function* function) {
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

int NVTX_API attach(NvtxGetExportTableFunc_t tables) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(tables(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0)
    return 0;
  put(table, NVTX_CBID_CORE2_DomainCreateA, &create);
  put(table, NVTX_CBID_CORE2_DomainRangePushEx, &push);
  put(table, NVTX_CBID_CORE2_DomainRangePop, &pop);
  return 1;
}

}  // namespace

TEST(OpRange, a_profiler_sees_nested_names_in_our_domain) {
  InitializeInjectionNvtx2_fnptr = &attach;  // asked for at the first range
  {
    const tilelace::cuda::OpRange outer("prepare");
    const tilelace::cuda::OpRange inner("gemm_ar");
  }
  { const tilelace::cuda::OpRange again("ag_gemm"); }
  EXPECT_EQ(seen, (std::vector<std::string>{"domain tilelace", "push prepare", "push gemm_ar",
                                            "pop", "pop", "push ag_gemm", "pop"}));
}
#else
TEST(OpRange, without_nvtx) { GTEST_SKIP() << "nvtx3: got no header, expected the CUDA toolkit's"; }
#endif
