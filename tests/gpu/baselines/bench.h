// SPDX-License-Identifier: Apache-2.0
// A rank's side of a row: all ways of doing it, in one run.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "beside.h"
#include "fused.h"
#include "gemms.h"
#include "medium.h"
#include "operands.h"
#include "timer.h"
#include "verify.h"

namespace tilelace::gpu_test {

/// The median of the slowest rank.
struct Figure {
  std::string name;
  Method method = Method::gemm;
  std::string plan;
  double us = 0;
  double spread = 0;  ///< p90 / p10
};

/// The same on every rank.
struct Figures {
  std::vector<Figure> all;
  std::string transport;    ///< of the fastest own plan
  Path path = Path::fused;  ///< likewise
  Verified verified;

  [[nodiscard]] const Figure* named(std::string_view name) const;
  /// The fastest of a way; null: there is none.
  [[nodiscard]] const Figure* fastest(Method method) const;
};

struct BenchOptions {
  int rounds = 20;
  Gemms::Options gemms;
  Fused::Options fused;
  std::vector<cuda::NcclBuffer> buffers;
  bool beside = true, medium = true, fuse = true;
  bool eager = false;  ///< unfused and fused without graphs, too
  Lengths lengths;
};

class RankBench {
 public:
  RankBench(Rank& rank, cuda::NcclGroup& nccl, const std::vector<Row>& rows,
            const BenchOptions& options, Board& board);

  /// Collective; all ranks come with the same row.
  Figures run(const Row& row);
  [[nodiscard]] bool has_windows() const;

 private:
  void add(std::vector<Variant>& variants, std::string name, Method method, cuda::NcclBuffer buffer,
           double guess_us, std::function<void(int)> launch);
  void add_products(const Row& row, std::vector<Variant>& variants);
  void add_unfused(const Row& row, std::vector<Variant>& variants);
  void add_beside(const Row& row, std::vector<Variant>& variants);
  void add_medium(const Row& row, std::vector<Variant>& variants);
  /// Copies of what is there, without graphs.
  void add_eager(std::vector<Variant>& variants);
  void collective(const Row& row, const Call& call);
  Verified verify(const Row& row, const std::vector<Variant>& variants);

  Rank& rank_;
  cuda::NcclGroup& nccl_;
  BenchOptions options_;
  Operands operands_;
  Timer timer_;
  Verifier verifier_;
  Gemms gemms_;
  std::unique_ptr<Beside> beside_;
  std::unique_ptr<Medium> medium_;
  std::unique_ptr<Fused> fused_;
};

}  // namespace tilelace::gpu_test
