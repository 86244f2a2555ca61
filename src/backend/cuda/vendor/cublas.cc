// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/vendor/cublas.h"

#include <cublasLt.h>

#include <vector>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/current_device.h"
#include "backend/cuda/base/dynamic_library.h"
#include "backend/cuda/base/element_types.h"
#include "core/check.h"

namespace tilelace::cuda {
namespace {

/// The functions of libcublasLt that are used, by their own names.
struct Library {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtGetVersion) version = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) config_get = nullptr;
  std::string problem;

  Library() {
    const DynamicLibrary lib({"libcublasLt.so.13", "libcublasLt.so"}, problem);
    if (!lib.open()) return;
    lib.find(create, "cublasLtCreate");
    lib.find(version, "cublasLtGetVersion");
    lib.find(matmul, "cublasLtMatmul");
    lib.find(desc_create, "cublasLtMatmulDescCreate");
    lib.find(desc_set, "cublasLtMatmulDescSetAttribute");
    lib.find(desc_destroy, "cublasLtMatmulDescDestroy");
    lib.find(layout_create, "cublasLtMatrixLayoutCreate");
    lib.find(layout_destroy, "cublasLtMatrixLayoutDestroy");
    lib.find(preference_create, "cublasLtMatmulPreferenceCreate");
    lib.find(preference_set, "cublasLtMatmulPreferenceSetAttribute");
    lib.find(preference_destroy, "cublasLtMatmulPreferenceDestroy");
    lib.find(heuristic, "cublasLtMatmulAlgoGetHeuristic");
    lib.find(config_get, "cublasLtMatmulAlgoConfigGetAttribute");
  }
};

const Library& library() {
  static const Library loaded;
  return loaded;
}

void check_blas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  raise(ErrorKind::system, "cublas: {} failed with status {}", what, static_cast<int>(status));
}

cublasLtHandle_t make_handle() {
  const Library& lib = library();
  if (!lib.problem.empty())
    raise(ErrorKind::system, "cublas: libcublasLt.so could not be loaded: {}", lib.problem);
  cublasLtHandle_t handle = nullptr;
  check_blas(lib.create(&handle), "cublasLtCreate");
  return handle;
}

/// Handles belong to a device; they are kept as long as the process runs.
cublasLtHandle_t handle_of_device() {
  thread_local std::vector<cublasLtHandle_t> handles(64);
  auto& handle = handles.at(static_cast<std::size_t>(current_device()));
  if (handle == nullptr) handle = make_handle();
  return handle;
}

}  // namespace

struct CublasGemm::Impl {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t weight = nullptr, a = nullptr, out = nullptr;
  std::vector<cublasLtMatmulHeuristicResult_t> found;
  CublasRoom room;
  void* owned = nullptr;  // the room, if it is this object's

  ~Impl() {
    if (desc != nullptr) library().desc_destroy(desc);
    for (auto* layout : {weight, a, out})
      if (layout != nullptr) library().layout_destroy(layout);
    cudaFree(owned);
  }
  void set_problem(const plan::GemmProblem&);
  void find(int wanted, std::size_t alignment);
};

void CublasGemm::Impl::set_problem(const plan::GemmProblem& p) {
  const Library& lib = library();
  const cudaDataType_t type = library_types(p.dtype).blas;
  const auto m = static_cast<std::uint64_t>(p.m);
  const auto n = static_cast<std::uint64_t>(p.n);
  const auto k = static_cast<std::uint64_t>(p.k);
  // Column-major as cublas sees it: out^T[n, m] = weight[n, k] * a^T[k, m].
  const cublasOperation_t transposed = CUBLAS_OP_T;
  check_blas(lib.desc_create(&desc, CUBLAS_COMPUTE_32F, library_types(kAccumulator).blas),
             "cublasLtMatmulDescCreate");
  check_blas(lib.desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
             "transposing");
  check_blas(lib.layout_create(&weight, type, k, n, p.k), "layout of the weight");
  check_blas(lib.layout_create(&a, type, k, m, p.k), "layout of a");
  check_blas(lib.layout_create(&out, type, n, m, p.n), "layout of the result");
}

void CublasGemm::Impl::find(int wanted, std::size_t alignment) {
  const Library& lib = library();
  cublasLtMatmulPreference_t preference = nullptr;
  check_blas(lib.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
    check_blas(lib.preference_set(preference, what, &value, sizeof value), "a preference");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, room.bytes);
  const auto least = static_cast<std::uint32_t>(alignment);
  for (const auto tensor :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(tensor, least);
  found.resize(static_cast<std::size_t>(wanted));
  int got = 0;
  const auto status =
      lib.heuristic(handle, desc, weight, a, out, out, preference, wanted, found.data(), &got);
  lib.preference_destroy(preference);
  check_blas(status, "cublasLtMatmulAlgoGetHeuristic");
  found.resize(static_cast<std::size_t>(got));
}

CublasGemm::CublasGemm(const plan::GemmProblem& p, int wanted, CublasRoom room,
                       std::size_t alignment)
    : impl_(std::make_unique<Impl>()) {
  impl_->handle = handle_of_device();
  impl_->room = room;
  impl_->set_problem(p);
  impl_->find(wanted, alignment);
  if (impl_->found.empty())
    raise(ErrorKind::system, "cublas: no algorithm for m {}, n {}, k {}", p.m, p.n, p.k);
}

CublasGemm::CublasGemm(const plan::GemmProblem& p, int wanted, std::size_t workspace)
    : CublasGemm(p, wanted, CublasRoom{nullptr, workspace}, kCublasAlignment) {
  check(cudaMalloc(&impl_->owned, workspace), "workspace of cublas");
  impl_->room.memory = impl_->owned;
}

CublasGemm::~CublasGemm() = default;

int CublasGemm::algorithms() const { return static_cast<int>(impl_->found.size()); }

void CublasGemm::launch(const GemmTensors& t, int algorithm, cudaStream_t stream) const {
  const Impl& i = *impl_;
  const float one = 1;
  const float zero = 0;
  check_blas(
      library().matmul(i.handle, i.desc, &one, t.weight, i.weight, t.a, i.a, &zero, t.out, i.out,
                       t.out, i.out, &i.found.at(static_cast<std::size_t>(algorithm)).algo,
                       i.room.memory, i.room.bytes, stream),
      "cublasLtMatmul");
}

std::string CublasGemm::describe(int algorithm) const {
  const auto& found = impl_->found.at(static_cast<std::size_t>(algorithm));
  const auto field = [&](cublasLtMatmulAlgoConfigAttributes_t attribute, auto value) {
    std::size_t written = 0;
    library().config_get(&found.algo, attribute, &value, sizeof value, &written);
    return static_cast<int>(value);
  };
  return fmt::format("algorithm {} tile {} stages {} split {} cluster {}", algorithm,
                     field(CUBLASLT_ALGO_CONFIG_TILE_ID, int{}),
                     field(CUBLASLT_ALGO_CONFIG_STAGES_ID, int{}),
                     field(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, int{}),
                     field(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, std::uint16_t{}));
}

std::size_t cublas_version() { return library().problem.empty() ? library().version() : 0; }

}  // namespace tilelace::cuda
