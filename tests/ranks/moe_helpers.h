// SPDX-License-Identifier: Apache-2.0
// Runs both halves of a mixture of experts on a rank, with guards after results, and compares with
// the reference.
#pragma once
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "comm_helpers.h"
#include "conformance/moe_draw.h"
#include "schedule/moe_map.h"
#include "tilelace/tilelace.h"

namespace tilelace::test {

/// A tensor, aligned to 64 bytes. It is filled with NaNs at first and followed by NaNs.
class MoeTensor {
 public:
  MoeTensor(DType dtype, std::int64_t rows, std::int64_t cols)
      : dtype_(dtype), count_(rows * cols), memory_(bytes() + 2 * kGuard, std::byte{0xff}) {
    view_ = dense(data(), dtype, rows, cols);
  }
  MoeTensor(DType dtype, std::int64_t rows, std::int64_t cols, const std::vector<float>& values)
      : MoeTensor(dtype, rows, cols) {
    for (std::int64_t i = 0; i < count_; ++i)
      store_element(data(), dtype, i, values[static_cast<std::size_t>(i)]);
  }
  MoeTensor(const MoeTensor&) = delete;
  MoeTensor& operator=(const MoeTensor&) = delete;

  /// The view; empty if the tensor has no elements.
  [[nodiscard]] TensorView view() const { return count_ == 0 ? TensorView{} : view_; }
  /// The view, even if the tensor has no elements.
  [[nodiscard]] TensorView whole() const { return view_; }
  [[nodiscard]] std::vector<float> values() const {
    std::vector<float> all;
    for (std::int64_t i = 0; i < count_; ++i) all.push_back(load_element(view_.data, dtype_, i));
    return all;
  }
  /// Whether elements from `first` on, and the guard after them, are unchanged.
  [[nodiscard]] bool untouched_from(std::int64_t first) const {
    const auto at = static_cast<std::size_t>(first) * size_of(dtype_);
    const auto* begin = static_cast<const std::byte*>(view_.data);
    return std::all_of(begin + at, begin + bytes() + 64,
                       [](std::byte b) { return b == std::byte{0xff}; });
  }

 private:
  static constexpr std::size_t kGuard = 128;
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(count_) * size_of(dtype_);
  }
  void* data() {
    const std::size_t off = reinterpret_cast<std::uintptr_t>(memory_.data()) % 64;
    return memory_.data() + 64 - off;
  }

  DType dtype_;
  std::int64_t count_;
  std::vector<std::byte> memory_;
  TensorView view_;
};

/// A rank's tensors and results.
class MoeRank {
 public:
  MoeRank(const MoeCase& c, int rank)
      : c_(c),
        rank_(rank),
        layer_(c.on(rank)),
        pairs_(c.m() * layer_.top_k),
        w1_(layer_.dtype, layer_.here * c.width(), layer_.hidden, c.first_weight(rank)),
        w2_(layer_.dtype, layer_.here * layer_.hidden, layer_.inner, c.second_weight(rank)),
        b1_(layer_.dtype, c.biased ? layer_.here : 0, c.width(), c.first_bias(rank)),
        b2_(layer_.dtype, c.biased ? layer_.here : 0, layer_.hidden, c.second_bias(rank)),
        add_(layer_.dtype,
             c.add == MoeCase::Add::none  ? 0
             : c.add == MoeCase::Add::all ? c.m()
                                          : c.own(rank),
             layer_.hidden, c.terms(rank)),
        act_(layer_.dtype, pairs_, layer_.inner),
        gathered_(layer_.dtype, c.m(), layer_.hidden),
        out_(layer_.dtype, c.scatters ? c.own(rank) : c.m(), layer_.hidden),
        map_(static_cast<std::size_t>(moe_map_words(layer_, c.m())), -77) {
    const std::int64_t begin = layer_.replicated ? 0 : c.begin(rank);
    const std::int64_t tokens = layer_.replicated ? c.m() : c.own(rank);
    const auto x = c.x();
    x_.emplace(layer_.dtype, tokens, layer_.hidden,
               std::vector<float>(x.begin() + begin * layer_.hidden,
                                  x.begin() + (begin + tokens) * layer_.hidden));
    for (std::int64_t i = begin * layer_.top_k; i < (begin + tokens) * layer_.top_k; ++i) {
      ids_.push_back(c.ids[static_cast<std::size_t>(i)]);
      narrow_.push_back(static_cast<std::int32_t>(ids_.back()));
      weights_.push_back(c.weights[static_cast<std::size_t>(i)]);
    }
  }

  [[nodiscard]] AgMoeArgs first() {
    AgMoeArgs a;
    a.layer = layer_, a.m = c_.m();
    a.x = x_->whole();
    a.routing = {c_.type == Item::i64 ? static_cast<const void*>(ids_.data()) : narrow_.data(),
                 c_.type, weights_.data()};
    a.weight = w1_.whole(), a.bias = b1_.view();
    a.map = map_.data(), a.out = act_.whole();
    if (c_.seed % 2 == 0 && !layer_.replicated) a.gathered = gathered_.view();
    a.rows = c_.rows;
    return a;
  }
  [[nodiscard]] MoeReduceArgs second() {
    MoeReduceArgs a;
    a.layer = layer_, a.m = c_.m();
    a.x = act_.whole(), a.map = map_.data();
    a.weight = w2_.whole(), a.bias = b2_.view(), a.add = add_.view();
    a.out = out_.whole();
    if (c_.scatters) a.rows = c_.rows;
    return a;
  }
  void run_second(Communicator& member) {
    c_.scatters ? moe_rs(member, second()) : moe_ar(member, second());
  }

  /// Returns what is wrong with the first half's results, or "".
  [[nodiscard]] std::string wrong_first() const {
    const auto rows = static_cast<std::int64_t>(c_.pairs(rank_).size());
    if (map_[static_cast<std::size_t>(layer_.here)] != rows)
      return fmt::format("{} rows, expected {}", map_[static_cast<std::size_t>(layer_.here)], rows);
    if (!act_.untouched_from(rows * layer_.inner)) return "rows beyond the last were written";
    if (c_.seed % 2 == 0 && !layer_.replicated && gathered_.values() != c_.x())
      return "gathered is not what ranks had";
    return difference(first_half(c_, rank_), act_.values(), c_.integers);
  }
  [[nodiscard]] std::vector<float> rows_made() const {
    auto all = act_.values();
    all.resize(c_.pairs(rank_).size() * static_cast<std::size_t>(layer_.inner));
    return all;
  }
  [[nodiscard]] std::string wrong_second(const std::vector<Within>& sums) const {
    const std::int64_t begin = c_.scatters ? c_.begin(rank_) : 0;
    const std::int64_t tokens = c_.scatters ? c_.own(rank_) : c_.m();
    if (!out_.untouched_from(tokens * layer_.hidden)) return "the guard of out was written";
    return difference(
        {sums.begin() + begin * layer_.hidden, sums.begin() + (begin + tokens) * layer_.hidden},
        out_.values(), c_.integers);
  }
  [[nodiscard]] std::vector<float> out() const { return out_.values(); }
  [[nodiscard]] std::vector<std::int32_t>& map() { return map_; }
  [[nodiscard]] bool out_untouched() const { return out_.untouched_from(0); }
  [[nodiscard]] bool act_untouched() const { return act_.untouched_from(0); }

 private:
  const MoeCase& c_;
  int rank_;
  MoeLayer layer_;
  std::int64_t pairs_;
  MoeTensor w1_, w2_, b1_, b2_, add_, act_, gathered_, out_;
  std::optional<MoeTensor> x_;
  std::vector<std::int64_t> ids_;
  std::vector<std::int32_t> narrow_;
  std::vector<float> weights_;
  std::vector<std::int32_t> map_;
};

}  // namespace tilelace::test
