// SPDX-License-Identifier: Apache-2.0
// cuBLASLt on emulated GPUs: every algorithm is the product rounded once.
#include "backend/cuda/vendor/cublas.h"

#include "gemm/data.h"

namespace tilelace::cuda {

struct CublasGemm::Impl {
  plan::GemmProblem problem;
  int algorithms = 0;
};

CublasGemm::CublasGemm(const plan::GemmProblem& p, int wanted, std::size_t /*workspace*/)
    : impl_(new Impl{p, wanted}) {}
CublasGemm::CublasGemm(const plan::GemmProblem& p, int wanted, CublasRoom /*room*/,
                       std::size_t /*alignment*/)
    : impl_(new Impl{p, wanted}) {}
CublasGemm::~CublasGemm() = default;

int CublasGemm::algorithms() const { return impl_->algorithms; }

void CublasGemm::launch(const GemmTensors& t, int /*algorithm*/, cudaStream_t stream) const {
  test::make_expected({t.a, t.weight, nullptr, nullptr, impl_->problem, Activation::none}, t.out,
                      stream);
}

std::string CublasGemm::describe(int algorithm) const {
  return "algorithm " + std::to_string(algorithm);
}

std::size_t cublas_version() { return 1; }

}  // namespace tilelace::cuda
