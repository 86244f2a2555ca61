// SPDX-License-Identifier: Apache-2.0
#include "model/shard.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "core/check.h"
#include "core/half.h"
#include "model/random.h"
#include "model/tensor_names.h"

namespace tilelace::model {
namespace {

constexpr std::int64_t kRowAlign = 16;
constexpr std::size_t kAlign = 64;
/// Logical rows that a transposing copy writes side by side.
constexpr std::int64_t kTileRows = 64;

/// The tensor `stem + suffix`, with the prefix or without, of exactly this shape.
TensorView stored(const Checkpoint& file, const Place& place, const char* suffix,
                  const std::vector<std::int64_t>& shape) {
  std::string name = place.prefix + place.stem + suffix;
  if (!file.contains(name) && file.contains(place.stem + suffix)) name = place.stem + suffix;
  const TensorInfo& info = file.info(name);
  require(info.shape == shape, "weights: {}: tensor {}, got shape [{}], expected [{}]",
          file.path().string(), name, fmt::join(info.shape, ", "), fmt::join(shape, ", "));
  return file.tensor(name);
}

/// Copies stored element (row, col0 + j) to out[j * step] for all j < count. The file's bytes may
/// lie anywhere, so that they go through an aligned buffer.
void copy_run(const TensorView& from, std::int64_t row, std::int64_t col0, std::int64_t count,
              std::vector<float>& scratch, const TensorView& to, std::int64_t at,
              std::int64_t step) {
  const std::size_t width = size_of(from.dtype);
  const auto* source = static_cast<const char*>(from.data) +
                       static_cast<std::size_t>(row * from.stride + col0) * width;
  if (step == 1 && from.dtype == to.dtype) {
    auto* target = static_cast<char*>(to.data) + static_cast<std::size_t>(at) * width;
    std::memcpy(target, source, static_cast<std::size_t>(count) * width);
    return;
  }
  if (scratch.size() < static_cast<std::size_t>(count))
    scratch.resize(static_cast<std::size_t>(count));
  std::memcpy(scratch.data(), source, static_cast<std::size_t>(count) * width);
  for (std::int64_t j = 0; j < count; ++j)
    store_element(to.data, to.dtype, at + j * step, load_element(scratch.data(), from.dtype, j));
}

/// Calls run(first, end, place) for each run of logical rows that lie side by side in the file.
template <class Run>
void for_runs(const Place& place, Slice rows, std::int64_t longest, Run run) {
  for (std::int64_t r = rows.begin; r < rows.end;) {
    const std::int64_t group_end = (r / place.group + 1) * place.group;
    const std::int64_t end = std::min({rows.end, group_end, r + longest});
    run(r, end, place.row(r));
    r = end;
  }
}

void copy_block(const TensorView& from, const Place& place, Slice rows, Slice cols,
                const TensorView& to) {
  std::vector<float> scratch;
  if (!place.transposed) {
    for (std::int64_t r = rows.begin; r < rows.end; ++r)
      copy_run(from, place.row(r), cols.begin, cols.size(), scratch, to,
               (r - rows.begin) * to.stride, 1);
    return;
  }
  for_runs(place, rows, kTileRows, [&](std::int64_t r, std::int64_t end, std::int64_t at) {
    for (std::int64_t c = cols.begin; c < cols.end; ++c)
      copy_run(from, c, at, end - r, scratch, to, (r - rows.begin) * to.stride + c - cols.begin,
               to.stride);
  });
}

void check_layer(const LayerSource& from) {
  require(from.layer >= 0 && from.layer < from.config.layers,
          "weights: layer of {}, got {}, expected 0 to {}", from.config.name, from.layer,
          from.config.layers - 1);
}

void check_slice(const LayerGemm& gemm, const char* what, Slice slice, std::int64_t full) {
  require(0 <= slice.begin && slice.begin <= slice.end && slice.end <= full,
          "weights: {} of {}, got [{}, {}), expected a part of [0, {})", what, gemm.layer,
          slice.begin, slice.end, full);
}

std::uint64_t key_of(const LayerSource& from, const LayerGemm& gemm, const char* what,
                     std::size_t index) {
  return random_key(from.source.seed(),
                    fmt::format("{}.{}.{}.{}", from.layer, gemm.layer, what, index));
}

float scale_of(const LayerGemm& gemm) { return 1.0F / std::sqrt(static_cast<float>(gemm.full_k)); }

}  // namespace

Matrix make_matrix(DType dtype, std::int64_t rows, std::int64_t cols) {
  const auto width = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t unit = kRowAlign / width;
  std::int64_t bytes = -1;
  std::int64_t stride = 0;
  if (rows >= 0 && cols >= 0 && cols <= std::numeric_limits<std::int64_t>::max() / 32) {
    stride = (cols + unit - 1) / unit * unit;
    if (__builtin_mul_overflow(stride * width, rows, &bytes)) bytes = -1;
  }
  require(bytes >= 0, "weights: no memory can hold {} x {} elements", rows, cols);
  const std::size_t padded = (static_cast<std::size_t>(bytes) / kAlign + 1) * kAlign;
  void* memory = std::aligned_alloc(kAlign, padded);
  require(memory != nullptr, "out of memory: weights of {} bytes, {} x {}", padded, rows, cols);
  Matrix m{{memory, std::free}, {memory, dtype, rows, cols, stride}};
  for (std::int64_t r = 0; r < rows && cols < stride; ++r)
    std::memset(static_cast<char*>(memory) + (r * stride + cols) * width, 0,
                static_cast<std::size_t>((stride - cols) * width));
  return m;
}

Matrix weight_block(const LayerSource& from, const LayerGemm& gemm, std::size_t index, Slice rows,
                    Slice cols, DType dtype) {
  check_layer(from);
  check_slice(gemm, "rows", rows, gemm.full_n.at(index));
  check_slice(gemm, "columns", cols, gemm.full_k);
  Matrix out = make_matrix(dtype, rows.size(), cols.size());
  if (const Checkpoint* file = from.source.file(); file != nullptr) {
    const Place p = place_of(from.config, gemm, index, from.layer);
    const auto shape = p.transposed ? std::vector{p.cols, p.rows} : std::vector{p.rows, p.cols};
    copy_block(stored(*file, p, ".weight", shape), p, rows, cols, out.view);
  } else {
    fill_random(out.view, key_of(from, gemm, "weight", index), rows.begin, cols.begin,
                scale_of(gemm));
  }
  return out;
}

Matrix bias_block(const LayerSource& from, const LayerGemm& gemm, std::size_t index, Slice rows,
                  DType dtype) {
  check_layer(from);
  check_slice(gemm, "bias", rows, gemm.full_n.at(index));
  Matrix out = make_matrix(dtype, 1, rows.size());
  if (const Checkpoint* file = from.source.file(); file != nullptr) {
    const Place p = place_of(from.config, gemm, index, from.layer);
    const TensorView bias = stored(*file, p, ".bias", {p.rows});
    std::vector<float> scratch;
    for_runs(p, rows, p.rows, [&](std::int64_t r, std::int64_t end, std::int64_t at) {
      copy_run(bias, 0, at, end - r, scratch, out.view, r - rows.begin, 1);
    });
  } else {
    fill_random(out.view, key_of(from, gemm, "bias", index), 0, rows.begin, scale_of(gemm));
  }
  return out;
}

LayerWeights shard(const LayerSource& from, const LayerGemm& gemm, int rank, DType dtype) {
  LayerWeights out;
  for (std::size_t i = 0; i < gemm.n.size(); ++i) {
    const Slice rows = row_slice(gemm, i, rank);
    out.weights.push_back(weight_block(from, gemm, i, rows, k_slice(gemm, rank), dtype));
    if (gemm.bias) out.biases.push_back(bias_block(from, gemm, i, rows, dtype));
  }
  return out;
}

LayerWeights unsharded(const LayerSource& from, const LayerGemm& gemm, DType dtype) {
  LayerWeights out;
  for (std::size_t i = 0; i < gemm.full_n.size(); ++i) {
    const Slice rows{0, gemm.full_n[i]};
    out.weights.push_back(weight_block(from, gemm, i, rows, {0, gemm.full_k}, dtype));
    if (gemm.bias) out.biases.push_back(bias_block(from, gemm, i, rows, dtype));
  }
  return out;
}

}  // namespace tilelace::model
