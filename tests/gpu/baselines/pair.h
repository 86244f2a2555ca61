// SPDX-License-Identifier: Apache-2.0
// A tensor-parallel MLP, both halves in one stream and graph: ag_gemm with swiglu, then gemm_rs; or
// a product with swiglu, then gemm_ar; beside NCCL, cuBLASLt and a kernel for the activation.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backend/cuda/cublas.h"
#include "gemms.h"
#include "ops/op_run.h"
#include "timer.h"

namespace tilelace::gpu_test {

struct PairRow {
  std::string model;
  Op second = Op::gemm_rs;  ///< or gemm_ar: then the input is whole on every rank
  int ranks = 1;
  std::int64_t m = 0;  ///< a multiple of ranks
  std::int64_t hidden = 0;
  std::int64_t inner = 0;  ///< of one rank, gate's or up's

  [[nodiscard]] std::string name() const { return second == Op::gemm_rs ? "mlp_rs" : "mlp_ar"; }
  [[nodiscard]] bool gathers() const { return second == Op::gemm_rs; }
  /// Gate and up, and down, of one rank.
  [[nodiscard]] plan::GemmProblem first_product(bool gated) const;
  [[nodiscard]] plan::GemmProblem second_product() const;
  [[nodiscard]] Problem gather_problem() const;
  [[nodiscard]] Problem sum_problem() const;
  [[nodiscard]] std::int64_t out_rows() const { return gathers() ? m / ranks : m; }
};

/// Errors: usage (m that ranks do not divide, no such model).
std::vector<PairRow> pair_rows(const std::vector<Op>& seconds,
                               const std::vector<std::string>& models, int ranks,
                               const std::vector<std::int64_t>& ms);

struct PairResult {
  PairRow row;
  double gemms_us = 0;  ///< both products by cuBLASLt, and nothing else
  double unfused_us = 0, fused_us = 0, default_us = 0;  ///< default: both plans by prediction
  double spread = 0;                                    ///< of fused, p90 / p10
  std::string first_plan, second_plan;
  double difference = 0;  ///< relative, of fused and unfused results
  double allowed = 0;     ///< what roundings account for
  int rounds = 0;

  [[nodiscard]] double speedup() const { return unfused_us / fused_us; }
  /// A NaN is not.
  [[nodiscard]] bool good() const { return difference <= allowed; }
};

/// One line by the schema tilelace.bench/1.
Json record(const PairResult& result, double link_gb_per_s, const std::string& commit);
void print_pairs(const std::vector<PairResult>& results);

/// A rank's side. All calls are collective.
class PairBench {
 public:
  struct Options {
    int rounds = 20;
    int candidates = 6;   ///< plans of each half that are tried, best prediction first
    int algorithms = 16;  ///< of cuBLASLt
    Lengths lengths;
  };
  PairBench(Rank& rank, cuda::NcclGroup& nccl, const std::vector<PairRow>& rows,
            const Options& options);

  PairResult run(const PairRow& row);

 private:
  struct Blas {
    std::unique_ptr<cuda::CublasGemm> gemm;
    int algorithm = 0;
    void launch(const cuda::GemmTensors& t, cudaStream_t stream) const {
      gemm->launch(t, algorithm, stream);
    }
  };
  /// A half of the own pair: its plan's print and its launch.
  struct Half {
    std::string plan;
    std::function<void()> launch;
  };

  [[nodiscard]] std::byte* part(std::size_t bytes);
  void lay(const PairRow& row);
  [[nodiscard]] cuda::GemmTensors blas_first() const;
  [[nodiscard]] cuda::GemmTensors blas_second() const;
  Blas best_blas(const plan::GemmProblem& problem, const cuda::GemmTensors& tensors);
  [[nodiscard]] Half gather_half(const PairRow& row, const OpPlan& plan);
  [[nodiscard]] Half product_half(const PairRow& row, const plan::GemmPlan& plan);
  [[nodiscard]] Half sum_half(const PairRow& row, const OpPlan& plan);
  std::vector<Half> first_halves(const PairRow& row);
  std::vector<Half> second_halves(const PairRow& row);
  /// The fastest under load.
  std::size_t best_of(const std::vector<Half>& halves, const PairRow& row);
  Variant variant(std::string name, Method method, double guess_us, std::function<void()> launch);
  std::vector<Variant> variants(const PairRow& row, PairResult& result);
  /// Relative Frobenius distance of the results of two variants.
  double distance(const PairRow& row, const Variant& x, const Variant& y);

  Rank& rank_;
  cuda::NcclGroup& nccl_;
  Options options_;
  Timer timer_;
  cuda::GemmWorkspace workspace_;
  std::unique_ptr<cuda::NcclMemory> memory_;
  std::size_t used_ = 0;
  std::unique_ptr<ReachableMemory> reachable_;
  std::unique_ptr<cuda::RankOps> ops_;
  Blas first_, second_;
  // Of the row in use. `whole`: the gathered input; own rows in place.
  std::byte *whole_ = nullptr, *own_ = nullptr, *gate_ = nullptr, *up_ = nullptr, *down_ = nullptr,
            *both_ = nullptr, *inner_ = nullptr, *partial_ = nullptr, *out_ = nullptr;
};

}  // namespace tilelace::gpu_test
