// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "bench.h"

namespace tilelace::gpu_test {

struct Result {
  Row row;
  Figures figures;
  double link_gb_per_s = 0;  ///< a GPU and direction
  int rounds = 0;

  [[nodiscard]] bool good() const { return figures.verified.trouble.empty(); }
  [[nodiscard]] double gemm_us() const { return figures.fastest(Method::gemm)->us; }
  [[nodiscard]] double roof_us() const;
  /// The fused op's; none where it was not timed.
  [[nodiscard]] const Figure* fused() const { return figures.named("fused"); }
  /// Null where one after the other costs nothing.
  [[nodiscard]] std::optional<double> efficiency() const;
  [[nodiscard]] std::optional<double> speedup() const;
};

/// One line by the schema tilelace.bench/1.
Json record(const Result& result, const std::string& commit);

void print_table(const std::vector<Result>& results);

}  // namespace tilelace::gpu_test
