// SPDX-License-Identifier: Apache-2.0
// TileGemm in plain loops, every access of which a sanitizer sees.
#include <algorithm>
#include <vector>

#include "backend/cpu/gemm/convert.h"
#include "backend/cpu/gemm/micro_kernel.h"
#include "backend/cpu/gemm/tile_gemm.h"
#include "core/check.h"

namespace tilelace::cpu {
namespace {

constexpr std::int64_t kStrip = kLanes<float>;

std::int64_t strips(std::int64_t cols) { return (cols + kStrip - 1) / kStrip; }

}  // namespace

// Panels as strips [k, 16] in fp32, the last one padded with zeros.
struct PackedWeight::Impl {
  std::vector<std::vector<float>> panels;
};

PackedWeight::PackedWeight(const TensorView& weight, int tile_n, Panels /*how*/)
    : n_(weight.rows),
      k_(weight.cols),
      tile_n_(tile_n),
      dtype_(weight.dtype),
      impl_(std::make_unique<Impl>()) {
  require(n_ >= 1 && k_ >= 0 && tile_n >= 1,
          "packed weight: got n {}, k {}, tile_n {}, expected n >= 1, k >= 0, tile_n >= 1", n_, k_,
          tile_n);
  require(
      k_ == 0 || (weight.data != nullptr && weight.stride >= k_),
      "packed weight: got data {} and stride {}, expected data that is not null and a stride >= {}",
      weight.data, weight.stride, k_);
  std::vector<float> row(static_cast<std::size_t>(k_));
  for (std::int64_t p = 0; p < panels(); ++p) {
    std::vector<float> panel(static_cast<std::size_t>(strips(panel_cols(p)) * k_ * kStrip));
    for (std::int64_t c = 0; c < panel_cols(p); ++c) {
      const std::int64_t source = (p * tile_n + c) * weight.stride;
      to_float(element(weight.data, dtype_, source), dtype_, k_, row.data());
      float* strip = panel.data() + (c / kStrip) * k_ * kStrip + c % kStrip;
      for (std::int64_t i = 0; i < k_; ++i) strip[i * kStrip] = row[static_cast<std::size_t>(i)];
    }
    impl_->panels.push_back(std::move(panel));
  }
}

PackedWeight::PackedWeight(PackedWeight&&) noexcept = default;
PackedWeight& PackedWeight::operator=(PackedWeight&&) noexcept = default;
PackedWeight::~PackedWeight() = default;

std::size_t PackedWeight::bytes() const {
  std::size_t total = 0;
  for (const auto& panel : impl_->panels) total += panel.size() * sizeof(float);
  return total;
}

struct TileGemm::Impl {
  std::int64_t max_rows;
  std::vector<float> a_tile;  // [max_rows, k]
  std::vector<float> strip;   // [max_rows, 16]
};

TileGemm::TileGemm(int max_rows) {
  require(max_rows >= 1, "tile gemm: max_rows: got {}, expected at least 1", max_rows);
  impl_ = std::make_unique<Impl>();
  impl_->max_rows = max_rows;
  impl_->strip.resize(static_cast<std::size_t>(max_rows * kStrip));
}

TileGemm::TileGemm(TileGemm&&) noexcept = default;
TileGemm& TileGemm::operator=(TileGemm&&) noexcept = default;
TileGemm::~TileGemm() = default;

void TileGemm::prepare(const PackedWeight& weight) {
  const auto wanted = static_cast<std::size_t>(impl_->max_rows * weight.k());
  impl_->a_tile.resize(std::max(impl_->a_tile.size(), wanted));
}

void TileGemm::run(const PackedWeight& weight, std::int64_t panel, const void* a, std::int64_t lda,
                   std::int64_t rows, float* c, std::int64_t ldc) {
  require(rows <= impl_->max_rows, "tile gemm: rows: got {}, expected at most {}", rows,
          impl_->max_rows);
  if (rows <= 0) return;
  prepare(weight);
  const std::int64_t k = weight.k(), cols = weight.panel_cols(panel);
  const DType dtype = weight.dtype();
  for (std::int64_t r = 0; r < rows; ++r)
    to_float(element(a, dtype, r * lda), dtype, k, impl_->a_tile.data() + r * k);
  const float* packed = weight.impl_->panels[static_cast<std::size_t>(panel)].data();
  float* strip = impl_->strip.data();
  for (std::int64_t s = 0; s < strips(cols); ++s) {
    const std::int64_t first = s * kStrip, width = std::min(kStrip, cols - first);
    multiply_panel(impl_->a_tile.data(), k, rows, packed + s * k * kStrip, k, strip, kStrip);
    for (std::int64_t r = 0; r < rows; ++r)
      std::copy_n(strip + r * kStrip, width, c + r * ldc + first);
  }
}

const char* gemm_engine_name(DType) { return "reference"; }

}  // namespace tilelace::cpu
