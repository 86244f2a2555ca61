// SPDX-License-Identifier: Apache-2.0
// A whole layer on one GPU: map, permute, up, down, sum. Each pass's result is compared with a
// reference computed from the data that the pass read.
#pragma once
#include <string>
#include <vector>

#include "backend/cuda/moe/moe_gpu.h"
#include "moe/buffer.h"
#include "moe/routing.h"

namespace tilelace::gpu_test {

/// The tokens for which SumSlots::add has a row, which is added to the token's sum.
enum class Added : std::uint8_t { none, all, some };

struct LayerShape {
  schedule::MoeMap map;
  bool wide = false;  ///< whether ids are int64
  std::int64_t hidden = 0, inner = 0;
  DType dtype{};
  cuda::Gating gating = cuda::Gating::one;  ///< gating of up
  Activation activation = Activation::none;
  bool bias = false;
  bool weighted = false;  ///< whether permute multiplies rows by routing weights
  bool scaled = false;    ///< whether down multiplies its rows by routing weights
  Added added = Added::none;
  bool exact = false;  ///< whether values are integers, so that results are exact
  plan::GroupedShape up, down;
};

/// Operands and results of a layer of one shape.
class Layer {
 public:
  Layer(const LayerShape&, std::uint64_t seed);

  void route(const Ids&);
  /// Enqueues the whole layer.
  void run(cudaStream_t) const;
  void poison_results() const;
  /// What is wrong with the last run. `drop`: the reference of up leaves out k < 8 * drop.
  [[nodiscard]] std::string trouble(int drop = 0) const;
  /// The bits of the layer's result.
  [[nodiscard]] std::vector<std::uint16_t> result() const;
  [[nodiscard]] const LayerShape& shape() const { return s_; }
  [[nodiscard]] double worst() const { return worst_; }

 private:
  struct Product;
  [[nodiscard]] std::string map_trouble(std::vector<std::int32_t>& words) const;
  [[nodiscard]] std::string rows_trouble(const std::vector<std::int32_t>& words) const;
  [[nodiscard]] std::string product_trouble(const Product&, const std::vector<std::int32_t>& words,
                                            int drop) const;
  [[nodiscard]] std::string sum_trouble(const std::vector<std::int32_t>& words) const;
  [[nodiscard]] cuda::GroupedGemm up() const;
  [[nodiscard]] cuda::GroupedGemm down() const;
  [[nodiscard]] std::vector<std::uint16_t> numbers(std::size_t count, std::uint64_t seed,
                                                   float size) const;
  [[nodiscard]] std::size_t pairs() const { return static_cast<std::size_t>(s_.map.pairs()); }
  /// add_first(): the first token that has a row of `add`. add_rows(): the number of such tokens.
  [[nodiscard]] std::int64_t add_first() const {
    return s_.added == Added::some ? s_.map.m / 3 : 0;
  }
  [[nodiscard]] std::int64_t add_rows() const {
    return s_.added == Added::some ? s_.map.m / 2 : s_.map.m;
  }

  LayerShape s_;
  Ids ids_host_;
  Buffer ids_, map_, x_, rows_, w_up_, b_up_, act_, w_down_, b_down_, scale_, down_, add_, out_;
  mutable double worst_ = 0;
};

}  // namespace tilelace::gpu_test
