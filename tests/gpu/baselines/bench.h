// SPDX-License-Identifier: Apache-2.0
// A rank's side of a row: the fastest GEMM, the collectives, one after the other.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "backend/cuda/cublas.h"
#include "operands.h"
#include "timer.h"
#include "verify.h"

namespace tilelace::gpu_test {

struct Figure {
  double us = 0;
  double spread = 0;
};

/// The same on every rank: medians of the slowest rank.
struct Figures {
  Figure gemm;
  std::vector<std::pair<cuda::NcclBuffer, Figure>> collective;  ///< one a kind of buffer
  std::vector<std::pair<cuda::NcclBuffer, Figure>> unfused;
  std::string plan;
  Verified verified;
};

struct BenchOptions {
  int rounds = 7;
  int algorithms = 16;
  Lengths lengths;
};

class RankBench {
 public:
  RankBench(Rank& rank, cuda::NcclGroup& nccl, const std::vector<Row>& rows,
            const BenchOptions& options, Board& board);

  /// Collective; all ranks come with the same row.
  Figures run(const Row& row);
  [[nodiscard]] bool has_windows() const { return operands_.kinds().size() == kBufferKinds.size(); }

 private:
  struct BestGemm {
    std::unique_ptr<cuda::CublasGemm> blas;
    int algorithm = 0;
    std::string name;
  };
  using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

  /// cuBLASLt's algorithms under load on all ranks at once; the one whose slowest rank is fastest.
  const BestGemm& best_gemm(const Row& row, double guess_us);
  void collective(const Row& row, const Call& call);
  Verified verify(const Row& row, const std::vector<Variant>& variants);

  Rank& rank_;
  cuda::NcclGroup& nccl_;
  BenchOptions options_;
  Operands operands_;
  Timer timer_;
  Verifier verifier_;
  std::map<Shape, BestGemm> best_;
};

}  // namespace tilelace::gpu_test
