// SPDX-License-Identifier: Apache-2.0
#include "op/tune_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "backend/cpu/gemm/expert_bound.h"
#include "core/half.h"
#include "op/moe_checks.h"
#include "op/tune_operands.h"
#include "plan/base/expert_product.h"

namespace tilelace::op {
namespace {

using cpu::Within;

constexpr std::int64_t kExpertColumns = 16;  ///< of a row whose values are looked at
/// The router's weight of every row, in the second half.
constexpr float kRouterScale = 0.5F;
enum ExpertTensor : std::uint8_t { kExpertRows, kExpertWeight };

/// A power of two that makes sums of k products about as large as their factors.
float scale_of(std::int64_t k) {
  return static_cast<float>(std::exp2(-std::round(std::log2(static_cast<double>(k)) / 2)));
}

template <class T>
DeviceBuffer uploaded(Communicator& member, const std::vector<T>& values) {
  DeviceBuffer buffer(member, std::max<std::size_t>(16, values.size() * sizeof(T)));
  buffer.upload(values.data(), values.size() * sizeof(T));
  return buffer;
}

DeviceBuffer room(Communicator& member, std::int64_t elements, DType dtype) {
  return {member, std::max<std::size_t>(16, static_cast<std::size_t>(elements) * size_of(dtype))};
}

}  // namespace

std::vector<std::int32_t> uniform_begins(const MoeLayer& l, std::int64_t m, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> order(static_cast<std::size_t>(l.experts));
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::int32_t> begins(static_cast<std::size_t>(experts_here(l)) + 1);
  for (std::int64_t token = 0; token < m; ++token)
    for (std::size_t slot = 0; slot < static_cast<std::size_t>(l.top_k); ++slot) {
      std::uniform_int_distribution<std::size_t> other(slot, order.size() - 1);
      std::swap(order[slot], order[other(random)]);
      const std::int64_t here = order[slot] - l.first;
      if (here >= 0 && here < experts_here(l)) ++begins[static_cast<std::size_t>(here) + 1];
    }
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  return begins;
}

ExpertOperands::ExpertOperands(Communicator& member, const AskedTiles& asked,
                               const TuneValues& values)
    : member_(member),
      asked_(asked),
      product_(plan::expert_product(asked.layer, asked.m, asked.first)),
      values_(values),
      weight_scale_(scale_of(product_.k)),
      scales_(uploaded(member,
                       std::vector<float>(static_cast<std::size_t>(product_.rows), kRouterScale))),
      sources_(room(member, product_.rows, kAccumulator)) {
  const plan::GroupedProduct& p = product_;
  std::vector<std::int32_t> sources(static_cast<std::size_t>(p.rows));
  std::iota(sources.begin(), sources.end(), 0);
  sources_ = uploaded(member, sources);
  const std::int64_t weight = p.experts * p.n * p.k;
  // A call reads no weight of an expert without rows.
  const std::int64_t touched = p.rows * (p.k + p.out_n()) + std::min(p.rows, p.experts) * p.n * p.k;
  const auto item = static_cast<std::int64_t>(size_of(p.dtype));
  const std::int64_t sets = copies_beyond_l2(item * touched);
  const std::int64_t copies = std::min(sets, copies_beyond_l2(item * weight));
  const std::string some =
      values.bytes(p.dtype, member.rank(), kExpertWeight, weight, weight_scale_);
  for (std::int64_t i = 0; i < copies; ++i)
    fill_rounds(weights_.emplace_back(room(member, weight, p.dtype)), some, weight, p.dtype);
  const std::string rows = values.bytes(p.dtype, member.rank(), kExpertRows, p.rows * p.k);
  for (std::int64_t i = 0; i < sets; ++i) {
    const auto begins = uniform_begins(asked.layer, asked.m, static_cast<std::uint32_t>(i));
    if (i == 0) begins_ = begins;
    sets_.push_back({room(member, p.rows * p.k, p.dtype), room(member, p.rows * p.out_n(), p.dtype),
                     uploaded(member, begins), static_cast<std::size_t>(i % copies)});
    fill_rounds(sets_.back().x, rows, p.rows * p.k, p.dtype);
  }
}

GroupedGemmArgs ExpertOperands::call(int i, void* stream) const {
  const plan::GroupedProduct& p = product_;
  const Set& set = sets_[static_cast<std::size_t>(i) % sets_.size()];
  GroupedGemmArgs a;
  a.x = dense(set.x.data(), p.dtype, p.rows, p.k);
  a.begins = static_cast<const std::int32_t*>(set.begins.data());
  a.experts = p.experts;
  a.weight = dense(weights_[set.weight].data(), p.dtype, p.experts * p.n, p.k);
  a.out = dense(set.out.data(), p.dtype, p.rows, p.out_n());
  if (asked_.first) {
    a.activation = asked_.layer.activation;
  } else {
    a.scales = static_cast<const float*>(scales_.data());
    a.sources = static_cast<const std::int32_t*>(sources_.data());
  }
  a.device = Device::cuda;
  a.stream = stream;
  return a;
}

void ExpertOperands::poison() { fill_nans(sets_.front().out); }

std::string ExpertOperands::wrong() const {
  const auto all = static_cast<std::int64_t>(begins_.back());
  for (const std::int64_t row : {std::int64_t{0}, all / 2, all - 1}) {
    if (row < 0 || row >= all) continue;
    const auto after = std::ranges::upper_bound(begins_, static_cast<std::int32_t>(row));
    if (std::string text = wrong_row(after - begins_.begin() - 1, row); !text.empty()) return text;
  }
  return "";
}

std::string ExpertOperands::wrong_row(std::int64_t expert, std::int64_t row) const {
  const plan::GroupedProduct& p = product_;
  const auto values = [&](ExpertTensor tensor, std::int64_t of, float scale) {
    std::vector<float> all;
    for (std::int64_t i = 0; i < p.k; ++i)
      all.push_back(values_.at(p.dtype, member_.rank(), tensor, of * p.k + i, scale));
    return all;
  };
  const std::vector<float> x = values(kExpertRows, row, 1);
  const auto product = [&](std::int64_t n) {
    const std::vector<float> w = values(kExpertWeight, expert * p.n + n, weight_scale_);
    return cpu::dot(x.data(), w.data(), p.k, 0);
  };
  const ExpertActivation activation =
      asked_.first ? asked_.layer.activation : ExpertActivation::none;
  const bool mixed = activation == ExpertActivation::swiglu_clamped;
  std::string bytes(static_cast<std::size_t>(p.out_n()) * size_of(p.dtype), '\0');
  sets_.front().out.download(bytes.data(), bytes.size(),
                             static_cast<std::size_t>(row) * bytes.size());
  const std::int64_t step = std::max<std::int64_t>(1, p.out_n() / kExpertColumns);
  for (std::int64_t n = 0; n < p.out_n(); n += step) {
    const Within gate = product(mixed ? 2 * n : n);
    const Within up = p.gated ? product(mixed ? 2 * n + 1 : n + p.out_n()) : Within{};
    const Within exact = cpu::activated(activation, gate, up);
    const Within want =
        cpu::rounded(asked_.first ? exact : cpu::times(exact, kRouterScale), p.dtype);
    const double got = load_element(bytes.data(), p.dtype, n);
    if (!(std::fabs(got - want.value) <= want.off))
      return fmt::format("expert {}, row {}, column {}: got {:g}, expected {:g} within {:.2g}",
                         expert, row, n, got, want.value, want.off);
  }
  return "";
}

}  // namespace tilelace::op
