// SPDX-License-Identifier: Apache-2.0
// The matrices of a layer that one rank holds: slices of a checkpoint's tensors or of random ones.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "model/checkpoint.h"
#include "model/config.h"
#include "model/layers.h"
#include "tilelace/tensor.h"

namespace tilelace::model {

/// A matrix and its memory, which copies share. The memory is aligned to 64 bytes, rows begin at
/// multiples of 16 bytes, and the padding after each row is zero.
struct Matrix {
  std::shared_ptr<void> storage;
  TensorView view;
};
/// Errors: usage, if the matrix does not fit in memory.
Matrix make_matrix(DType dtype, std::int64_t rows, std::int64_t cols);

/// Where weights come from. Cheap to copy; safe to read from several threads.
class WeightSource {
 public:
  static WeightSource random(std::uint64_t seed) { return WeightSource(seed, nullptr); }
  static WeightSource checkpoint(std::shared_ptr<const Checkpoint> c) {
    return WeightSource(0, std::move(c));
  }
  [[nodiscard]] const Checkpoint* file() const { return checkpoint_.get(); }  ///< null: random
  [[nodiscard]] std::uint64_t seed() const { return seed_; }

 private:
  WeightSource(std::uint64_t seed, std::shared_ptr<const Checkpoint> c)
      : seed_(seed), checkpoint_(std::move(c)) {}

  std::uint64_t seed_;
  std::shared_ptr<const Checkpoint> checkpoint_;
};

/// One layer's GEMM of one model, from one source.
struct LayerSource {
  const ModelConfig& config;
  const WeightSource& source;
  int layer = 0;
};

struct LayerWeights {
  std::vector<Matrix> weights;  ///< [n_i, k]
  std::vector<Matrix> biases;   ///< [1, n_i]; empty when the GEMM has no bias
};

/// A rank's shard of a GEMM's weights and biases. If `dtype` is narrower than the type in the file,
/// values are rounded, ties to even. In gemm_rs and gemm_ar every rank has the whole bias. Errors:
/// usage, naming the tensor, if a tensor is missing or its shape is not the config's.
LayerWeights shard(const LayerSource& from, const LayerGemm& gemm, int rank, DType dtype);

/// The whole matrices that the shards of all ranks make up.
LayerWeights unsharded(const LayerSource& from, const LayerGemm& gemm, DType dtype);

/// A block of weight `index` of the unsharded product, for callers that cannot hold the whole
/// weight.
Matrix weight_block(const LayerSource& from, const LayerGemm& gemm, std::size_t index, Slice rows,
                    Slice cols, DType dtype);
Matrix bias_block(const LayerSource& from, const LayerGemm& gemm, std::size_t index, Slice rows,
                  DType dtype);

}  // namespace tilelace::model
