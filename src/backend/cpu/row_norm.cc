// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/row_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/e4m3.h"
#include "core/half.h"
#include "core/rounded.h"

namespace tilelace::cpu {
namespace {

constexpr std::int64_t kUnit = 8, kBlock = 128;

/// Of neighbours, of pairs, of pairs of pairs; what is missing is zero.
float tree_of(std::vector<float>& sums) {
  for (std::size_t left = sums.size(); left > 1; left = (left + 1) / 2)
    for (std::size_t i = 0; i < (left + 1) / 2; ++i)
      sums[i] = 2 * i + 1 < left ? rounded::plus(sums[2 * i], sums[2 * i + 1]) : sums[2 * i];
  return sums.front();
}

/// A row at a time, with room for one.
template <class Element>
class Rows {
 public:
  using Word = typename Element::Word;

  explicit Rows(const AllReduceNormArgs& args)
      : args_(args),
        h_(static_cast<std::size_t>(args.n)),
        squares_(static_cast<std::size_t>(args.n / kUnit)) {}

  void norm(std::int64_t row, const Word* sums) {
    add_residual(row, sums);
    const float root = root_of_squares();
    const auto* const weight = static_cast<const Word*>(args_.weight);
    auto* const normed = static_cast<Word*>(args_.normed);
    for (std::int64_t i = 0; i < args_.n; ++i) {
      float& h = h_[static_cast<std::size_t>(i)];
      h = rounded::times(rounded::times(h, root), Element::to_float(weight[i]));
      if (normed != nullptr) normed[row * args_.n + i] = Element::from_float(h);
    }
    quantise(row);
  }

 private:
  void add_residual(std::int64_t row, const Word* sums) {
    const auto* const residual = static_cast<const Word*>(args_.residual);
    auto* const out = static_cast<Word*>(args_.out);
    for (std::int64_t i = 0; i < args_.n; ++i) {
      const std::int64_t at = row * args_.n + i;
      Word h = sums[at];
      if (residual != nullptr)
        h = Element::from_float(
            rounded::plus(Element::to_float(h), Element::to_float(residual[at])));
      if (out != nullptr) out[at] = h;
      h_[static_cast<std::size_t>(i)] = Element::to_float(h);
    }
  }

  float root_of_squares() {
    squares_.resize(static_cast<std::size_t>(args_.n / kUnit));
    for (std::size_t u = 0; u < squares_.size(); ++u) {
      const float* const h = h_.data() + u * kUnit;
      float sum = rounded::times(h[0], h[0]);
      for (int i = 1; i < kUnit; ++i) sum = rounded::plus(sum, rounded::times(h[i], h[i]));
      squares_[u] = sum;
    }
    const float mean = rounded::times(tree_of(squares_), 1.0F / static_cast<float>(args_.n));
    return rounded::inverse_root(rounded::plus(mean, args_.eps));
  }

  void quantise(std::int64_t row) const {
    const std::int64_t n = args_.n;
    switch (args_.quant) {
      case NormQuant::none: return;
      case NormQuant::token: args_.scales[row] = scale_of(0, n); break;
      case NormQuant::block:
        for (std::int64_t b = 0; b < n / kBlock; ++b)
          args_.scales[row * (n / kBlock) + b] = scale_of(b * kBlock, kBlock);
        break;
      case NormQuant::given: break;
    }
    auto* const bytes = static_cast<std::uint8_t*>(args_.quantised) + row * n;
    float inverse = 1;
    for (std::int64_t i = 0; i < n; ++i) {
      if (i % kBlock == 0) {
        const std::int64_t at = args_.quant == NormQuant::token   ? row
                                : args_.quant == NormQuant::block ? row * (n / kBlock) + i / kBlock
                                                                  : 0;
        inverse = rounded::over(1.0F, args_.scales[at]);
      }
      bytes[i] = float_to_e4m3(rounded::times(h_[static_cast<std::size_t>(i)], inverse));
    }
  }
  [[nodiscard]] float scale_of(std::int64_t begin, std::int64_t count) const {
    float most = 0;
    for (std::int64_t i = begin; i < begin + count; ++i)
      most = std::fmax(most, std::fabs(h_[static_cast<std::size_t>(i)]));
    return std::fmax(rounded::over(most, kLargestE4m3), kLeastScale);
  }

  const AllReduceNormArgs& args_;
  std::vector<float> h_;  ///< what is normed, then what it is normed to
  std::vector<float> squares_;
};

template <class Element>
void norm_all(const AllReduceNormArgs& args, const std::byte* sums) {
  Rows<Element> rows(args);
  for (std::int64_t row = 0; row < args.m; ++row)
    rows.norm(row, reinterpret_cast<const typename Element::Word*>(sums));
}

}  // namespace

void norm_rows(const AllReduceNormArgs& args, const std::byte* sums) {
  if (args.item == Item::bf16)
    norm_all<HostBf16>(args, sums);
  else
    norm_all<HostFp16>(args, sums);
}

}  // namespace tilelace::cpu
