// SPDX-License-Identifier: Apache-2.0
// Reads measured records (benchmarks/*.jsonl), to compare the simulator with them.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "places.h"
#include "sim/predict.h"

namespace tilelace::sim {

inline std::vector<nlohmann::json> records(const std::string& file) {
  std::ifstream in(in_source_tree("benchmarks/" + file));
  EXPECT_TRUE(in.good()) << file;
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(in, line);) all.push_back(nlohmann::json::parse(line));
  // The GPU programs write shorter names of models.
  for (auto& r : all) {
    for (const auto& [brief, whole] :
         {std::pair("gpt3", "gpt3-175b"), std::pair("llama70b", "llama2-70b"),
          std::pair("qwen32b", "qwen3-32b")}) {
      if (r["model"] == brief) r["model"] = whole;
    }
  }
  return all;
}

inline Op op_of(const std::string& name) {
  return name == "ag_gemm" ? Op::ag_gemm : name == "gemm_rs" ? Op::gemm_rs : Op::gemm_ar;
}

/// The call in which `ranks` ranks share a product of the unsharded extents m, n and k.
inline Call call_of_product(Op op, int ranks, std::int64_t m, std::int64_t n, std::int64_t k) {
  Problem p;
  p.op = op;
  p.ranks = ranks;
  p.m = m;
  p.n = {op == Op::ag_gemm ? n / ranks : n};
  p.k = op == Op::ag_gemm ? k : k / ranks;
  return call_of(p, ranks);
}

/// The q-th quantile of the values, interpolated linearly.
inline double quantile_of(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const auto high = std::min(low + 1, values.size() - 1);
  return values[low] + (values[high] - values[low]) * (at - static_cast<double>(low));
}
inline double median_of(const std::vector<double>& values) { return quantile_of(values, 0.5); }

struct Errors {
  std::vector<double> percent;
  void add(double predicted, double measured) {
    percent.push_back(100 * (predicted / measured - 1));
  }
  [[nodiscard]] double quantile(double q) const {
    std::vector<double> size;
    for (const double e : percent) size.push_back(std::fabs(e));
    return quantile_of(std::move(size), q);
  }
};

}  // namespace tilelace::sim
