// SPDX-License-Identifier: Apache-2.0
#include "moe/measure.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "backend/cpu/gemm/expert_bound.h"
#include "gpu_times.h"
#include "json_values.h"
#include "machine.h"
#include "moe/tensors.h"
#include "op/run_plan.h"
#include "row.h"
#include "schedule/moe_map.h"

namespace tilelace::cli {
namespace {

using cpu::Within;

constexpr double kRowSeconds = 0.5;
constexpr int kFewestSamples = 3, kMostSamples = 40, kGpuSamples = 10;
/// Bytes of an id, of a router's weight and of a map's word.
constexpr std::size_t kWord = 4;
constexpr std::int64_t kCheckedTokens = 4;

/// What one rank has of a layer, for the largest size.
class RankLayer {
 public:
  RankLayer(const MoeWork& work, Communicator& member, const Send& send)
      : work_(work),
        member_(member),
        send_(send),
        layer_(work.layer),
        width_(layer_.inner * (row_of(layer_.activation).gated ? 2 : 1)),
        x_(member, layer_.dtype, layer_.m, layer_.hidden, 1, 1),
        w1_(member, layer_.dtype, layer_.experts * width_, layer_.hidden, seed(10),
            1 / std::sqrt(static_cast<double>(layer_.hidden))),
        w2_(member, layer_.dtype, layer_.experts * layer_.hidden, layer_.inner, seed(20),
            1 / std::sqrt(static_cast<double>(layer_.inner * work.ranks))),
        b1_(member, layer_.dtype, layer_.experts, width_, seed(30), 1),
        b2_(member, layer_.dtype, layer_.experts, layer_.hidden, seed(40), 1),
        act_(member, layer_.dtype, layer_.m * layer_.top_k, layer_.inner),
        out_(member, layer_.dtype, layer_.m, layer_.hidden),
        map_(member, static_cast<std::size_t>(moe_map_words(layer_, layer_.m)) * kWord),
        ids_(member, static_cast<std::size_t>(layer_.m * layer_.top_k) * kWord),
        weights_(member, static_cast<std::size_t>(layer_.m * layer_.top_k) * kWord) {
    if (work.device == Device::cuda) times_.emplace(member, [&send] { send(""); });
  }

  void run_row(const std::string& op, RoutingKind kind, std::int64_t m) {
    MoeTimes row{op, kind, m, 1, {}, {}, {}};
    routed_ = make_routing(kind, layer_, m);
    row.imbalance = imbalance(expert_rows(routed_, layer_, m));
    layer_.replicated = is_replicated(op);
    set_arguments(m);
    prepare_moe(member_, layer_);
    if (work_.check) row.complaint = check(m);
    times_ ? time_on_gpus(row) : time(row);
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
    ids_.upload(routed_.ids.data(), routed_.ids.size() * kWord);
    weights_.upload(routed_.weights.data(), routed_.weights.size() * kWord);
    const std::int64_t chosen = begin_ * layer_.top_k;
    first_ = {};
    first_.layer = layer_, first_.m = m;
    first_.x = x_.rows(begin_, tokens_);
    first_.routing = {static_cast<const std::int32_t*>(ids_.data()) + chosen, Item::i32,
                      static_cast<const float*>(weights_.data()) + chosen};
    first_.weight = w1_.view(), first_.map = map();
    first_.out = act_.rows(0, m * layer_.top_k);
    second_ = {};
    second_.layer = layer_, second_.m = m;
    second_.x = first_.out, second_.map = map();
    second_.weight = w2_.view();
    second_.out = out_.rows(0, tokens_);
    first_.stream = second_.stream = stream();
    if (!work_.biased) return;
    first_.bias = b1_.view();
    if (rank == 0) second_.bias = b2_.view();  // one rank's alone: all have every expert
  }
  [[nodiscard]] std::int32_t* map() const { return static_cast<std::int32_t*>(map_.data()); }
  [[nodiscard]] void* stream() const { return times_ ? times_->stream() : nullptr; }

  void second_half() { layer_.replicated ? moe_ar(member_, second_) : moe_rs(member_, second_); }
  void both() {
    ag_moe(member_, first_);
    second_half();
  }

  /// One half after the other, on the host's clock.
  void time(MoeTimes& row) {
    for (int i = 0; i < std::max(1, work_.warmup); ++i) {
      both();
      send_("");
    }
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

  /// In graphs: the first half alone, and both.
  void time_on_gpus(MoeTimes& row) {
    const std::vector<GpuCall> calls{[this](int /*turn*/) { ag_moe(member_, first_); },
                                     [this](int /*turn*/) { both(); }};
    auto all =
        times_->samples(calls, work_.iterations > 0 ? work_.iterations : kGpuSamples, work_.warmup);
    row.first_us = std::move(all[0]), row.us = std::move(all[1]);
  }

  /// Collective: one call on spoilt results; the map that it made.
  std::vector<std::int32_t> run_once() {
    act_.spoil(), out_.spoil();
    member_.synchronize();  // copies from the host may end after they return
    send_("");
    member_.barrier();
    both();
    member_.synchronize(stream());
    std::vector<std::int32_t> words(map_.bytes() / kWord);
    map_.download(words.data(), map_.bytes());
    return words;
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
    const bool biased = second_.bias.data != nullptr;
    std::vector<Within> term;
    std::vector<std::vector<float>> acts, biases;
    for (std::size_t s = 0; s < rows.size(); ++s) {
      acts.push_back(act_.row(rows[s]));
      if (biased) biases.push_back(b2_.row(expert_of(token, s)));
    }
    for (std::int64_t n = 0; n < layer_.hidden; ++n) {
      std::vector<Within> slots;
      for (std::size_t s = 0; s < rows.size(); ++s) {
        const auto w = w2_.row(expert_of(token, s) * layer_.hidden + n);
        const Within y = cpu::dot(acts[s].data(), w.data(), layer_.inner,
                                  biased ? biases[s][static_cast<std::size_t>(n)] : 0);
        const float weight = routed_.weights[static_cast<std::size_t>(token * layer_.top_k) + s];
        slots.push_back(cpu::rounded(cpu::times(y, weight), layer_.dtype));
      }
      term.push_back(cpu::rounded(cpu::added(slots), layer_.dtype));
    }
    return term;
  }
  [[nodiscard]] std::int64_t expert_of(std::int64_t token, std::size_t slot) const {
    return routed_.ids[static_cast<std::size_t>(token * layer_.top_k) + slot];
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
    const std::vector<std::int32_t> words = run_once();
    const schedule::MoeMap shape{m, layer_.top_k, layer_.experts, 0, layer_.experts};
    const std::int64_t step = std::max<std::int64_t>(1, m / kCheckedTokens);
    for (std::int64_t token = 0; token < m; token += step) {
      std::vector<std::int64_t> rows;
      for (std::int64_t s = 0; s < layer_.top_k; ++s) {
        const std::int64_t pair = token * layer_.top_k + s;
        rows.push_back(words[static_cast<std::size_t>(shape.row_of() + pair)]);
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
  RandomTensor x_, w1_, w2_, b1_, b2_;
  ResultTensor act_, out_;
  DeviceBuffer map_, ids_, weights_;
  std::optional<GpuTimes> times_;  ///< of GPU ranks
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
