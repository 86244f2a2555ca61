// SPDX-License-Identifier: Apache-2.0
#include "moe/measure.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "backend/cpu/gemm/expert_bound.h"
#include "core/half.h"
#include "gpu_times.h"
#include "json_values.h"
#include "machine.h"
#include "op/run_plan.h"
#include "row.h"
#include "schedule/moe_map.h"

namespace tilelace::cli {
namespace {

using cpu::Within;

constexpr double kRowSeconds = 0.5;
constexpr int kFewestSamples = 3, kMostSamples = 40;
constexpr std::int64_t kCheckedTokens = 4;

/// Random elements, which repeat after a prime number of them: tables are small, and no displaced
/// row looks right.
class Elements {
 public:
  Elements(DType dtype, std::int64_t rows, std::int64_t cols, std::uint32_t seed, double scale)
      : memory_(static_cast<std::size_t>(rows * cols) * size_of(dtype) + 64) {
    auto at = reinterpret_cast<std::uintptr_t>(memory_.data());
    view_ = dense(memory_.data() + (64 - at % 64), dtype, rows, cols);
    constexpr std::int64_t kTable = 65537;
    const std::int64_t count = rows * cols, table = std::min(count, kTable);
    std::mt19937 random(seed);
    std::normal_distribution<double> normal(0, scale);
    for (std::int64_t i = 0; i < table; ++i)
      store_element(view_.data, dtype, i, static_cast<float>(normal(random)));
    auto* bytes = static_cast<std::byte*>(view_.data);
    for (std::int64_t i = table; i < count; i += table)
      std::memcpy(bytes + static_cast<std::size_t>(i) * size_of(dtype), bytes,
                  static_cast<std::size_t>(std::min(table, count - i)) * size_of(dtype));
  }
  [[nodiscard]] TensorView view() const { return view_; }
  /// A row as floats.
  [[nodiscard]] std::vector<float> row(std::int64_t r) const {
    std::vector<float> all;
    for (std::int64_t i = 0; i < view_.cols; ++i)
      all.push_back(load_element(view_.data, view_.dtype, r * view_.cols + i));
    return all;
  }

 private:
  std::vector<std::byte> memory_;
  TensorView view_;
};

/// What one rank has of a layer, for the largest size.
class RankLayer {
 public:
  RankLayer(const MoeWork& work, Communicator& member, const Send& send)
      : work_(work),
        member_(member),
        send_(send),
        layer_(work.layer),
        width_(layer_.inner * (row_of(layer_.activation).gated ? 2 : 1)),
        x_(layer_.dtype, layer_.m, layer_.hidden, 1, 1),
        w1_(layer_.dtype, layer_.experts * width_, layer_.hidden, seed(10),
            1 / std::sqrt(static_cast<double>(layer_.hidden))),
        w2_(layer_.dtype, layer_.experts * layer_.hidden, layer_.inner, seed(20),
            1 / std::sqrt(static_cast<double>(layer_.inner * work.ranks))),
        b1_(layer_.dtype, layer_.experts, width_, seed(30), 1),
        b2_(layer_.dtype, layer_.experts, layer_.hidden, seed(40), 1),
        act_(layer_.dtype, layer_.m * layer_.top_k, layer_.inner, 1, 0),
        out_(layer_.dtype, layer_.m, layer_.hidden, 1, 0),
        map_(static_cast<std::size_t>(moe_map_words(layer_, layer_.m))) {}

  void run_row(const std::string& op, RoutingKind kind, std::int64_t m) {
    MoeTimes row{op, kind, m, 1, {}, {}, {}};
    routed_ = make_routing(kind, layer_, m);
    row.imbalance = imbalance(expert_rows(routed_, layer_, m));
    layer_.replicated = is_replicated(op);
    set_arguments(m);
    prepare_moe(member_, layer_);
    for (int i = 0; i < std::max(1, work_.warmup); ++i) both();
    if (work_.check) row.complaint = check(m);
    time(row);
    if (member_.rank() == 0) send_(to_text(row));
  }

 private:
  [[nodiscard]] std::uint32_t seed(std::uint32_t base) const {
    return base + static_cast<std::uint32_t>(member_.rank());
  }

  void set_arguments(std::int64_t m) {
    const std::int64_t ranks = member_.size(), rank = member_.rank();
    const std::int64_t own = m / ranks + (rank < m % ranks ? 1 : 0);
    begin_ = layer_.replicated ? 0 : rank * (m / ranks) + std::min(rank, m % ranks);
    tokens_ = layer_.replicated ? m : own;
    first_ = {};
    first_.layer = layer_, first_.m = m;
    first_.x = rows_of(x_, begin_, tokens_);
    first_.routing = {routed_.ids.data() + begin_ * layer_.top_k, Item::i32,
                      routed_.weights.data() + begin_ * layer_.top_k};
    first_.weight = w1_.view(), first_.map = map_.data();
    first_.out = rows_of(act_, 0, m * layer_.top_k);
    second_ = {};
    second_.layer = layer_, second_.m = m;
    second_.x = first_.out, second_.map = map_.data();
    second_.weight = w2_.view();
    second_.out = rows_of(out_, 0, tokens_);
    if (!work_.biased) return;
    first_.bias = b1_.view();
    if (rank == 0) second_.bias = b2_.view();  // one rank's alone: all have every expert
  }
  static TensorView rows_of(const Elements& e, std::int64_t begin, std::int64_t rows) {
    TensorView t = e.view();
    t.data = static_cast<std::byte*>(t.data) +
             static_cast<std::size_t>(begin * t.cols) * size_of(t.dtype);
    t.rows = rows;
    return t;
  }

  void second_half() { layer_.replicated ? moe_ar(member_, second_) : moe_rs(member_, second_); }
  void both() {
    ag_moe(member_, first_);
    second_half();
    send_("");
  }

  void time(MoeTimes& row) {
    const double begin = seconds_now();
    const int most = work_.iterations > 0 ? work_.iterations : kMostSamples;
    for (int i = 0; i < most; ++i) {
      member_.barrier();
      const double start = seconds_now();
      ag_moe(member_, first_);
      const double middle = seconds_now();
      second_half();
      const double end = seconds_now();
      row.first_us.push_back(most_of(member_, middle - start) * 1e6);
      row.us.push_back(most_of(member_, end - start) * 1e6);
      send_("");
      const double spent = most_of(member_, seconds_now() - begin);
      if (work_.iterations == 0 && i + 1 >= kFewestSamples && spent > kRowSeconds) break;
    }
  }

  /// A row of the first half's result, by its (token, slot), against fp64.
  std::string wrong_row(std::int64_t pair, std::int64_t row) const {
    const std::int64_t expert = routed_.ids[static_cast<std::size_t>(pair)];
    const auto x = x_.row(pair / layer_.top_k), got = act_.row(row);
    const auto bias = b1_.row(expert);
    const auto product = [&](std::int64_t n) {
      const auto w = w1_.row(expert * width_ + n);
      return cpu::dot(x.data(), w.data(), layer_.hidden,
                      work_.biased ? bias[static_cast<std::size_t>(n)] : 0);
    };
    const bool gated = row_of(layer_.activation).gated;
    const bool mixed = layer_.activation == ExpertActivation::swiglu_clamped;
    for (std::int64_t n = 0; n < layer_.inner; ++n) {
      const Within gate = product(mixed ? 2 * n : n);
      const Within up = gated ? product(mixed ? 2 * n + 1 : n + layer_.inner) : Within{};
      const Within want = cpu::rounded(cpu::activated(layer_.activation, gate, up), layer_.dtype);
      if (!(std::fabs(got[static_cast<std::size_t>(n)] - want.value) <= want.off))
        return fmt::format(
            "first half: token {}, expert {}, column {}: got {}, expected {} within {}",
            pair / layer_.top_k, expert, n, got[static_cast<std::size_t>(n)], want.value, want.off);
    }
    return {};
  }

  /// This rank's term of a token, from the rows that the first half made.
  std::vector<Within> term_of(std::int64_t token, const std::vector<std::int64_t>& rows) const {
    std::vector<Within> term;
    std::vector<std::vector<float>> acts;
    for (const std::int64_t row : rows) acts.push_back(act_.row(row));
    for (std::int64_t n = 0; n < layer_.hidden; ++n) {
      std::vector<Within> slots;
      for (std::int64_t s = 0; s < layer_.top_k; ++s) {
        const auto pair = static_cast<std::size_t>(token * layer_.top_k + s);
        const std::int64_t expert = routed_.ids[pair];
        const auto w = w2_.row(expert * layer_.hidden + n);
        const bool biased = second_.bias.data != nullptr;
        const Within y = cpu::dot(
            acts[static_cast<std::size_t>(s)].data(), w.data(), layer_.inner,
            biased ? load_element(b2_.view().data, layer_.dtype, expert * layer_.hidden + n) : 0);
        slots.push_back(cpu::rounded(cpu::times(y, routed_.weights[pair]), layer_.dtype));
      }
      term.push_back(cpu::rounded(cpu::added(slots), layer_.dtype));
    }
    return term;
  }

  /// Collective: all ranks' terms of a token, by rank.
  std::vector<std::vector<Within>> terms_of(const std::vector<Within>& mine) {
    const std::string bytes(reinterpret_cast<const char*>(mine.data()),
                            mine.size() * sizeof(Within));
    std::vector<std::vector<Within>> all;
    for (const std::string& text : op::group_of(member_).all_gather(bytes, kMeetSeconds)) {
      auto& terms = all.emplace_back(mine.size());
      std::memcpy(terms.data(), text.data(), text.size());
    }
    return all;
  }

  std::string wrong_token(std::int64_t token, const std::vector<std::vector<Within>>& terms) const {
    const std::int64_t row = token - begin_;
    if (row < 0 || row >= tokens_) return {};
    const auto got = out_.row(row);
    for (std::size_t n = 0; n < got.size(); ++n) {
      std::vector<Within> ranks;
      for (const auto& term : terms) ranks.push_back(term[n]);
      const Within want = cpu::rounded(cpu::added(ranks), layer_.dtype);
      if (!(std::fabs(got[n] - want.value) <= want.off))
        return fmt::format("second half: token {}, column {}: got {}, expected {} within {}", token,
                           n, got[n], want.value, want.off);
    }
    return {};
  }

  /// Collective: the first complaint of any rank, on each.
  std::string check(std::int64_t m) {
    std::string found;
    const schedule::MoeMap map{m, layer_.top_k, layer_.experts, 0, layer_.experts};
    const std::int64_t step = std::max<std::int64_t>(1, m / kCheckedTokens);
    for (std::int64_t token = 0; token < m; token += step) {
      std::vector<std::int64_t> rows;
      for (std::int64_t s = 0; s < layer_.top_k; ++s) {
        const std::int64_t pair = token * layer_.top_k + s;
        rows.push_back(map_[static_cast<std::size_t>(map.row_of() + pair)]);
        if (found.empty()) found = wrong_row(pair, rows.back());
      }
      send_("");
      const auto terms = terms_of(term_of(token, rows));
      if (found.empty()) found = wrong_token(token, terms);
    }
    for (const std::string& text : op::group_of(member_).all_gather(found, kMeetSeconds))
      if (!text.empty()) return text;
    return {};
  }

  const MoeWork& work_;
  Communicator& member_;
  const Send& send_;
  MoeLayer layer_;
  std::int64_t width_;
  Elements x_, w1_, w2_, b1_, b2_, act_, out_;
  std::vector<std::int32_t> map_;
  Routed routed_;
  std::int64_t begin_ = 0, tokens_ = 0;  ///< this rank's
  AgMoeArgs first_;
  MoeReduceArgs second_;
};

}  // namespace

std::string to_text(const MoeTimes& t) {
  Json j;
  j["op"] = t.op;
  j["routing"] = static_cast<int>(t.routing);
  j["m"] = t.m;
  j["imbalance"] = t.imbalance;
  j["first_us"] = t.first_us;
  j["us"] = t.us;
  j["complaint"] = t.complaint;
  return j.dump();
}

MoeTimes moe_times_of(const std::string& text) {
  const Json j = Json::parse(text);
  return {j["op"],       static_cast<RoutingKind>(j["routing"].get<int>()),
          j["m"],        j["imbalance"],
          j["first_us"], j["us"],
          j["complaint"]};
}

void measure_moe(const MoeWork& work, Communicator& member, const Send& send) {
  RankLayer layer(work, member, send);
  for (const std::string& op : work.ops)
    for (const RoutingKind kind : work.routings)
      for (const std::int64_t m : work.sizes) layer.run_row(op, kind, m);
}

}  // namespace tilelace::cli
