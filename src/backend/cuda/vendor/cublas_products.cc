// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/vendor/cublas_products.h"

#include <algorithm>
#include <cstdint>

#include "plan/ways/unfused_sum_way.h"

namespace tilelace::cuda {
namespace {

constexpr std::size_t kMostKnown = 256;
constexpr std::size_t kLeastAlignment = 16;  // of all tensors of calls

std::size_t alignment_of(const GemmTensors& t) {
  for (const void* const at : {t.a, t.weight, static_cast<const void*>(t.out)})
    if (reinterpret_cast<std::uintptr_t>(at) % kCublasAlignment != 0) return kLeastAlignment;
  return kCublasAlignment;
}

}  // namespace

CublasProducts::Known::Known(const plan::GemmProblem& p, std::size_t aligned, CublasRoom room)
    : problem(p), alignment(aligned), product(p, plan::kCublasAlgorithms, room, aligned) {}

const CublasGemm& CublasProducts::product_of(const plan::GemmProblem& p, std::size_t alignment) {
  const auto known = std::find_if(known_.begin(), known_.end(), [&](const Known& k) {
    return k.problem == p && k.alignment == alignment;
  });
  if (known != known_.end()) {
    known_.splice(known_.begin(), known_, known);
  } else {
    known_.emplace_front(p, alignment, room_);
    if (known_.size() > kMostKnown) known_.pop_back();
  }
  return known_.front().product;
}

void CublasProducts::launch(const plan::GemmProblem& p, const GemmTensors& t, int number,
                            cudaStream_t stream) {
  const CublasGemm& product = product_of(p, alignment_of(t));
  product.launch(t, std::min(number, product.algorithms()) - 1, stream);
}

}  // namespace tilelace::cuda
