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
  [[nodiscard]] double roof_us() const;
};

/// The fastest of the kinds of buffers.
const std::pair<cuda::NcclBuffer, Figure>& fastest(
    const std::vector<std::pair<cuda::NcclBuffer, Figure>>& figures);

/// One line by the schema tilelace.bench/1.
Json record(const Result& result, const std::string& commit);

void print_table(const std::vector<Result>& results);

}  // namespace tilelace::gpu_test
