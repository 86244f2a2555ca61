// SPDX-License-Identifier: Apache-2.0
// The rows of the GEMM benchmark's tables: both GEMMs of three models' tensor-parallel MLPs, as
// one rank computes them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/gemm/gemm_plan.h"

namespace tilelace::test {

struct GemmRow {
  std::string model;
  std::string side;  ///< "ag": n is split; "rs": k is split
  int ranks = 1;
  std::int64_t n = 0, k = 0;  ///< extents of the unsharded product
  plan::GemmProblem problem;  ///< the GEMM of one rank
};

struct GemmModel {
  const char* name;
  const char* config;  ///< name of its file in models/, which has these sizes
  std::int64_t hidden, inner;
};
inline constexpr GemmModel kGemmModels[] = {{"gpt3", "gpt3-175b", 12288, 49152},
                                            {"llama70b", "llama2-70b", 8192, 28672},
                                            {"qwen32b", "qwen3-32b", 5120, 25600}};

inline std::vector<GemmRow> gemm_rows(const std::vector<std::string>& models,
                                      const std::vector<int>& ranks,
                                      const std::vector<std::int64_t>& ms, DType dtype) {
  std::vector<GemmRow> rows;
  for (const GemmModel& model : kGemmModels) {
    if (std::find(models.begin(), models.end(), model.name) == models.end()) continue;
    for (const int tp : ranks)
      for (const std::int64_t m : ms) {
        rows.push_back({model.name,
                        "ag",
                        tp,
                        model.inner,
                        model.hidden,
                        {m, model.inner / tp, model.hidden, dtype}});
        rows.push_back({model.name,
                        "rs",
                        tp,
                        model.hidden,
                        model.inner,
                        {m, model.hidden, model.inner / tp, dtype}});
      }
  }
  return rows;
}

}  // namespace tilelace::test
