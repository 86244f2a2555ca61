// SPDX-License-Identifier: Apache-2.0
// Layers of experts over emulated GPUs, through the public API: random sizes and routings, integers
// that are exact whatever the order, results spoilt before; ids that name no expert.
// usage: emulated_experts RANKS LAYERS SEED
#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tilelace/half.h"
#include "tilelace/tilelace.h"

namespace tilelace {
namespace {

using Values = std::vector<int>;

/// A layer, and all ranks' tensors: -1, 0 or 1, few of a row, so that sums are exact in bf16.
struct Case {
  MoeLayer layer;  ///< without first and here
  std::int64_t m = 0;
  bool cut = false;       ///< ranks have experts of their own
  bool scatters = false;  ///< moe_rs, else moe_ar
  Item type{};
  std::vector<std::int64_t> rows;  ///< tokens of each rank
  Values x;
  std::vector<std::int64_t> ids;
  std::vector<Values> first, second, add;  ///< by rank

  [[nodiscard]] std::int64_t begin(int rank) const {
    std::int64_t sum = 0;
    for (int r = 0; r < rank; ++r) sum += rows[static_cast<std::size_t>(r)];
    return sum;
  }
  [[nodiscard]] MoeLayer on(int rank) const {
    MoeLayer l = layer;
    const auto ranks = static_cast<std::int64_t>(rows.size());
    l.first = cut ? l.experts * rank / ranks : 0;
    l.here = cut ? l.experts * (rank + 1) / ranks - l.first : l.experts;
    return l;
  }
};

class Maker {
 public:
  Maker(int ranks, unsigned seed) : ranks_(ranks), rng_(seed) {}

  Case make() {
    Case c;
    c.rows.resize(static_cast<std::size_t>(ranks_));
    for (auto& rows : c.rows) rows = below(4) == 0 ? 0 : below(24);
    c.m = c.begin(ranks_);
    MoeLayer& l = c.layer;
    l.dtype = DType::bf16;
    l.activation = ExpertActivation::none;
    l.m = std::max<std::int64_t>(c.m, 1);
    l.hidden = 8 * (1 + below(10)), l.inner = 8 * (1 + below(10));
    l.experts = ranks_ + below(9), l.top_k = 1 + below(4);
    l.replicated = below(2) == 0;
    c.cut = below(2) == 0, c.scatters = below(2) == 0;
    c.type = below(2) == 0 ? Item::i32 : Item::i64;
    c.x = sparse(c.m, l.hidden);
    for (int r = 0; r < ranks_; ++r) {
      const std::int64_t here = c.on(r).here;
      c.first.push_back(sparse(here * l.inner, l.hidden));
      c.second.push_back(sparse(here * l.hidden, l.inner));
      c.add.push_back(sparse(c.m, l.hidden));
    }
    route(c);
    return c;
  }

 private:
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(rng_() % static_cast<unsigned>(end));
  }
  Values sparse(std::int64_t rows, std::int64_t cols) {
    Values v(static_cast<std::size_t>(rows * cols));
    for (std::int64_t r = 0; r < rows; ++r)
      for (int i = 0; i < 3; ++i)
        v[static_cast<std::size_t>(r * cols + below(cols))] = static_cast<int>(below(3)) - 1;
    return v;
  }
  /// Uniform, one expert for all, nobody, some nobody's.
  void route(Case& c) {
    const std::int64_t kind = below(4), hot = below(c.layer.experts);
    c.ids.resize(static_cast<std::size_t>(c.m * c.layer.top_k));
    for (auto& id : c.ids)
      id = kind == 1                                   ? hot
           : kind == 2 || (kind == 3 && below(3) == 0) ? -1
                                                       : below(c.layer.experts);
  }

  int ranks_;
  std::mt19937 rng_;
};

/// All tokens' sums over all ranks.
Values expected(const Case& c) {
  const auto hidden = c.layer.hidden, inner = c.layer.inner;
  Values out(static_cast<std::size_t>(c.m * hidden));
  for (std::size_t r = 0; r < c.rows.size(); ++r) {
    const MoeLayer l = c.on(static_cast<int>(r));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += c.add[r][i];
    for (std::int64_t i = 0; i < c.m * l.top_k; ++i) {
      const std::int64_t e = c.ids[static_cast<std::size_t>(i)] - l.first;
      if (c.ids[static_cast<std::size_t>(i)] < 0 || e < 0 || e >= l.here) continue;
      const std::int64_t t = i / l.top_k;
      for (std::int64_t j = 0; j < inner; ++j) {
        int act = 0;
        for (std::int64_t h = 0; h < hidden; ++h)
          act += c.first[r][static_cast<std::size_t>((e * inner + j) * hidden + h)] *
                 c.x[static_cast<std::size_t>(t * hidden + h)];
        for (std::int64_t h = 0; act != 0 && h < hidden; ++h)
          out[static_cast<std::size_t>(t * hidden + h)] +=
              act * c.second[r][static_cast<std::size_t>((e * hidden + h) * inner + j)];
      }
    }
  }
  return out;
}

template <class T>
class OnGpu {
 public:
  OnGpu(Communicator& c, const std::vector<T>& values) : OnGpu(c, values.size()) {
    cudaMemcpy(memory_.data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
  }
  /// Spoilt: NaNs.
  OnGpu(Communicator& c, std::size_t count)
      : count_(count),
        memory_(c, static_cast<std::int64_t>(std::max<std::size_t>(count, 8) * sizeof(T))) {
    cudaMemset(memory_.data(), 0xff, std::max<std::size_t>(count, 8) * sizeof(T));
  }
  [[nodiscard]] T* data() const { return static_cast<T*>(memory_.data()); }
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> all(count_);
    cudaMemcpy(all.data(), memory_.data(), count_ * sizeof(T), cudaMemcpyDeviceToHost);
    return all;
  }

 private:
  std::size_t count_;
  DeviceBuffer memory_;
};

std::vector<Bf16> rounded(const int* begin, const int* end) {
  std::vector<Bf16> all;
  for (; begin != end; ++begin) all.push_back(Bf16(static_cast<float>(*begin)));
  return all;
}
std::vector<Bf16> rounded(const Values& v) { return rounded(v.data(), v.data() + v.size()); }

/// One rank's part. Returns what was wrong.
std::string run(Communicator& member, const Case& c, int spoilt_rank) {
  const int rank = member.rank();
  const MoeLayer l = c.on(rank);
  const std::int64_t begin = l.replicated ? 0 : c.begin(rank);
  const std::int64_t own = l.replicated ? c.m : c.rows[static_cast<std::size_t>(rank)];
  const auto part = [&](const auto& all, std::int64_t of) {
    return std::vector(all.begin() + begin * of, all.begin() + (begin + own) * of);
  };
  const OnGpu<Bf16> x(member, rounded(part(c.x, l.hidden)));
  std::vector<std::int64_t> ids = part(c.ids, l.top_k);
  if (rank == spoilt_rank && !ids.empty()) ids.back() = l.experts;
  const OnGpu<std::int64_t> wide(member, ids);
  const OnGpu<std::int32_t> narrow(member, std::vector<std::int32_t>(ids.begin(), ids.end()));
  const OnGpu<float> weights(member, std::vector<float>(ids.size(), 1));
  const auto r = static_cast<std::size_t>(rank);
  const OnGpu<Bf16> w1(member, rounded(c.first[r])), w2(member, rounded(c.second[r]));
  const OnGpu<Bf16> add(member, rounded(c.add[r]));
  const auto pairs = static_cast<std::size_t>(c.m * l.top_k);
  const OnGpu<Bf16> act(member, pairs * static_cast<std::size_t>(l.inner));
  const OnGpu<std::int32_t> map(member, static_cast<std::size_t>(moe_map_words(l, c.m)));
  const std::int64_t tokens = c.scatters ? c.rows[r] : c.m;
  const OnGpu<Bf16> out(member, static_cast<std::size_t>(tokens * l.hidden));
  prepare_moe(member, l);
  AgMoeArgs a;
  a.layer = l, a.m = c.m, a.rows = c.rows, a.map = map.data();
  a.x = dense(x.data(), l.dtype, own, l.hidden);
  a.routing = {c.type == Item::i64 ? static_cast<const void*>(wide.data()) : narrow.data(), c.type,
               weights.data()};
  a.weight = dense(w1.data(), l.dtype, l.here * l.inner, l.hidden);
  a.out = dense(act.data(), l.dtype, c.m * l.top_k, l.inner);
  ag_moe(member, a);
  MoeReduceArgs b;
  b.layer = l, b.m = c.m, b.map = map.data(), b.x = a.out;
  b.weight = dense(w2.data(), l.dtype, l.here * l.hidden, l.inner);
  if (c.m > 0) b.add = dense(add.data(), l.dtype, c.m, l.hidden);
  b.out = dense(out.data(), l.dtype, tokens, l.hidden);
  if (c.scatters) b.rows = c.rows;
  c.scatters ? moe_rs(member, b) : moe_ar(member, b);
  member.synchronize();
  const Values all = expected(c);
  const auto got = out.values();
  const int* const mine = all.data() + (c.scatters ? c.begin(rank) * l.hidden : 0);
  for (std::size_t i = 0; i < got.size(); ++i)
    if (static_cast<float>(got[i]) != static_cast<float>(mine[i]))
      return fmt::format("element {}: got {}, expected {}", i, static_cast<float>(got[i]), mine[i]);
  return {};
}

/// All ranks' complaints, and errors.
std::vector<std::string> on_all(int ranks, const Case& c, int spoilt_rank) {
  CommunicatorOptions o;
  o.device = Device::cuda;
  o.timeout_s = 60;
  auto members = Communicator::threads(ranks, o);
  std::vector<std::string> found(members.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < members.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        found[r] = run(members[r], c, spoilt_rank);
      } catch (const Error& e) {
        found[r] = fmt::format("{} error: {}", name_of(e.kind()), e.what());
      }
    });
  for (auto& t : threads) t.join();
  return found;
}

std::string text_of(const Case& c) {
  const MoeLayer& l = c.layer;
  return fmt::format("{} m {} hidden {} inner {} experts {} top {}{}{}",
                     c.scatters ? "moe_rs" : "moe_ar", c.m, l.hidden, l.inner, l.experts, l.top_k,
                     l.replicated ? " replicated" : "", c.cut ? " cut" : "");
}

int run_all(int ranks, int layers, unsigned seed) {
  Maker maker(ranks, seed);
  int wrong = 0, refused = 0;
  for (int i = 0; i < layers; ++i) {
    const Case c = maker.make();
    for (const auto& found : on_all(ranks, c, -1)) {
      if (found.empty()) continue;
      ++wrong;
      fmt::print("WRONG {}: {}\n", text_of(c), found);
    }
    const std::size_t last = static_cast<std::size_t>(ranks) - 1;
    if (i % 5 != 0 || c.m == 0 || c.rows[last] == 0) continue;
    ++refused;
    for (const auto& found : on_all(ranks, c, ranks - 1)) {
      if (found.find("usage error") == 0 && found.find("names no expert") != std::string::npos)
        continue;
      ++wrong;
      fmt::print("WRONG ids of {}: {}\n", text_of(c), found);
    }
  }
  fmt::print("{} ranks: {} layers, {} with a wrong id, {} wrong\n", ranks, layers, refused, wrong);
  return wrong == 0 && refused > 0 ? 0 : 1;
}

}  // namespace
}  // namespace tilelace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: emulated_experts RANKS LAYERS SEED\n");
    return 2;
  }
  return tilelace::run_all(std::stoi(argv[1]), std::stoi(argv[2]),
                           static_cast<unsigned>(std::stoul(argv[3])));
}
