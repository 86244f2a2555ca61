// SPDX-License-Identifier: Apache-2.0
// The fastest products of a shape: cuBLASLt's algorithms and plans of the own kernel, found under
// load on all ranks at once; the one whose slowest rank is fastest.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "backend/cuda/cublas.h"
#include "operands.h"
#include "timer.h"

namespace tilelace::gpu_test {

struct BestBlas {
  std::unique_ptr<cuda::CublasGemm> blas;
  int algorithm = 0;
  std::string name;

  void launch(const cuda::GemmTensors& tensors, cudaStream_t stream) const {
    blas->launch(tensors, algorithm, stream);
  }
};

struct BestOwn {
  plan::GemmPlan plan;
  std::string name;
};

/// A first guess of a product's time under load.
double guess_gemm_us(const plan::GemmProblem& p);

/// All calls are collective, with the operands of a row in use whose tensors are as large.
class Gemms {
 public:
  struct Options {
    int algorithms = 16;  ///< of cuBLASLt that are tried
    int plans = 8;        ///< of the own kernel, best prediction first
    Lengths lengths;
  };
  Gemms(Rank& rank, Timer& timer, const Operands& operands, const Options& options);

  const BestBlas& blas(const plan::GemmProblem& p);
  /// The same with a workspace of its own, for a second stream; after blas().
  const BestBlas& twin(const plan::GemmProblem& p);
  const BestOwn& own(const plan::GemmProblem& p);
  /// Ready to be prepared by a timer.
  [[nodiscard]] Variant variant(const plan::GemmPlan& plan, const plan::GemmProblem& p) const;

 private:
  using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

  Rank& rank_;
  Timer& timer_;
  const Operands& operands_;
  Options options_;
  cuda::GemmWorkspace workspace_;
  std::map<Shape, BestBlas> blas_, twins_;
  std::map<Shape, BestOwn> own_;
};

}  // namespace tilelace::gpu_test
