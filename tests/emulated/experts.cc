// SPDX-License-Identifier: Apache-2.0
// Layers of experts over emulated GPUs, through the public API: random sizes and routings against
// fp64 with derived bounds, integers exactly, results spoilt before; ids that name no expert.
// usage: emulated_experts RANKS LAYERS SEED
#include <cuda_runtime_api.h>
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "conformance/moe_draw.h"
#include "tilelace/half.h"
#include "tilelace/tilelace.h"

namespace tilelace {
namespace {

using test::MoeCase;

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

/// Elements that bf16 represents.
std::vector<Bf16> as_bf16(const std::vector<float>& values) {
  std::vector<Bf16> all;
  for (const float v : values) all.push_back(Bf16(v));
  return all;
}

/// One rank's tensors.
class Rank {
 public:
  /// `spoilt`: the last id names no expert.
  Rank(Communicator& c, const MoeCase& of, bool spoilt)
      : case_(of),
        rank_(c.rank()),
        layer_(of.on(c.rank())),
        begin_(layer_.replicated ? 0 : of.begin(rank_)),
        own_(layer_.replicated ? of.m() : of.own(rank_)),
        tokens_(of.scatters ? of.own(rank_) : of.m()),
        x_(c, as_bf16(part(of.x(), layer_.hidden))),
        ids_(c, spoiled(part(of.ids, layer_.top_k), spoilt)),
        narrow_(c, narrowed(ids_.values())),
        weights_(c, part(of.weights, layer_.top_k)),
        w1_(c, as_bf16(of.first_weight(rank_))),
        w2_(c, as_bf16(of.second_weight(rank_))),
        b1_(c, as_bf16(of.first_bias(rank_))),
        b2_(c, as_bf16(of.second_bias(rank_))),
        terms_(of.terms(rank_)),
        add_(c, as_bf16(terms_)),
        act_(c, static_cast<std::size_t>(of.m() * layer_.top_k * layer_.inner)),
        map_(c, static_cast<std::size_t>(moe_map_words(layer_, of.m()))),
        out_(c, static_cast<std::size_t>(tokens_ * layer_.hidden)) {}

  /// `captured`: in a graph that is launched after room was made for a larger layer.
  void run(Communicator& c, bool captured) {
    prepare_moe(c, layer_);
    if (!captured) {
      call(c, nullptr);
      return c.synchronize();
    }
    cudaSetDevice(c.rank());
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
    call(c, stream);
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(stream, &graph);
    cudaGraphExec_t exec = nullptr;
    cudaGraphInstantiate(&exec, graph, 0);
    MoeLayer larger = layer_;
    larger.m *= 4;
    prepare_moe(c, larger);
    cudaGraphLaunch(exec, stream);  // stopped where memory that it uses was given back
    c.synchronize(stream);
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
  }
  [[nodiscard]] std::vector<float> rows_made() const {
    auto all = act_.values();
    all.resize(case_.pairs(rank_).size() * static_cast<std::size_t>(layer_.inner));
    return {all.begin(), all.end()};
  }
  [[nodiscard]] std::string wrong_first() const {
    return test::difference(test::first_half(case_, rank_), rows_made(), case_.integers);
  }
  [[nodiscard]] std::string wrong_second(const std::vector<test::Within>& sums) const {
    const auto got = out_.values();
    const auto from = sums.begin() + (case_.scatters ? case_.begin(rank_) : 0) * layer_.hidden;
    return test::difference({from, from + tokens_ * layer_.hidden}, {got.begin(), got.end()},
                            case_.integers);
  }

 private:
  void call(Communicator& c, void* stream) {
    AgMoeArgs a;
    a.stream = stream;
    a.layer = layer_, a.m = case_.m(), a.rows = case_.rows, a.map = map_.data();
    a.x = dense(x_.data(), layer_.dtype, own_, layer_.hidden);
    a.routing = {case_.type == Item::i64 ? static_cast<const void*>(ids_.data()) : narrow_.data(),
                 case_.type, weights_.data()};
    a.weight = dense(w1_.data(), layer_.dtype, layer_.here * case_.width(), layer_.hidden);
    if (case_.biased) a.bias = dense(b1_.data(), layer_.dtype, layer_.here, case_.width());
    a.out = dense(act_.data(), layer_.dtype, case_.m() * layer_.top_k, layer_.inner);
    ag_moe(c, a);
    MoeReduceArgs b;
    b.stream = stream;
    b.layer = layer_, b.m = case_.m(), b.map = map_.data(), b.x = a.out;
    b.weight = dense(w2_.data(), layer_.dtype, layer_.here * layer_.hidden, layer_.inner);
    if (case_.biased) b.bias = dense(b2_.data(), layer_.dtype, layer_.here, layer_.hidden);
    const auto added = static_cast<std::int64_t>(terms_.size()) / layer_.hidden;
    if (added > 0) b.add = dense(add_.data(), layer_.dtype, added, layer_.hidden);
    b.out = dense(out_.data(), layer_.dtype, tokens_, layer_.hidden);
    if (case_.scatters) b.rows = case_.rows;
    case_.scatters ? moe_rs(c, b) : moe_ar(c, b);
  }

  template <class T>
  [[nodiscard]] std::vector<T> part(const std::vector<T>& all, std::int64_t each) const {
    return {all.begin() + begin_ * each, all.begin() + (begin_ + own_) * each};
  }
  [[nodiscard]] std::vector<std::int64_t> spoiled(std::vector<std::int64_t> ids, bool yes) const {
    if (yes && !ids.empty()) ids.back() = layer_.experts;
    return ids;
  }

  [[nodiscard]] static std::vector<std::int32_t> narrowed(const std::vector<std::int64_t>& ids) {
    return {ids.begin(), ids.end()};
  }

  const MoeCase& case_;
  int rank_;
  MoeLayer layer_;
  std::int64_t begin_, own_, tokens_;  ///< tokens that go in, and that come out
  OnGpu<Bf16> x_;
  OnGpu<std::int64_t> ids_;
  OnGpu<std::int32_t> narrow_;
  OnGpu<float> weights_;
  OnGpu<Bf16> w1_, w2_, b1_, b2_;
  std::vector<float> terms_;
  OnGpu<Bf16> add_, act_;
  OnGpu<std::int32_t> map_;
  OnGpu<Bf16> out_;
};

/// All ranks' complaints, and errors.
std::vector<std::string> on_all(const MoeCase& c, int spoilt_rank, bool captured) {
  CommunicatorOptions o;
  o.device = Device::cuda;
  o.timeout_s = 60;
  auto members = Communicator::threads(c.ranks(), o);
  std::vector<std::string> found(members.size());
  std::vector<std::unique_ptr<Rank>> ranks(members.size());
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < members.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        ranks[r] = std::make_unique<Rank>(members[r], c, static_cast<int>(r) == spoilt_rank);
        ranks[r]->run(members[r], captured);
      } catch (const Error& e) {
        found[r] = fmt::format("{} error: {}", name_of(e.kind()), e.what());
      }
    });
  for (auto& t : threads) t.join();
  if (std::ranges::any_of(found, [](const std::string& text) { return !text.empty(); }))
    return found;
  std::vector<std::vector<float>> acts;
  for (const auto& rank : ranks) acts.push_back(rank->rows_made());
  const auto sums = test::second_half(c, acts);
  for (std::size_t r = 0; r < ranks.size(); ++r)
    found[r] = ranks[r]->wrong_first() + ranks[r]->wrong_second(sums);
  return found;
}

int run_all(int ranks, int layers, unsigned seed) {
  test::MoeDraw draw(seed);
  int wrong = 0, refused = 0;
  for (int i = 0; i < layers; ++i) {
    MoeCase c = draw.next(ranks);
    c.layer.dtype = DType::bf16;
    c.integers = i % 2 == 0;
    if (c.integers) {
      c.layer.activation = ExpertActivation::none;
      c.filled = 3.0F / static_cast<float>(std::max(c.layer.hidden, c.layer.inner));
    }
    draw.route(c);
    for (const auto& found : on_all(c, -1, i % 3 == 1)) {
      if (found.empty()) continue;
      ++wrong;
      fmt::print("WRONG {}: {}\n", c.text(), found);
    }
    if ((refused > 0 && i % 5 != 0) || c.own(ranks - 1) == 0) continue;
    ++refused;
    for (const auto& found : on_all(c, ranks - 1, false)) {
      if (found.find("usage error") == 0 && found.find("names no expert") != std::string::npos)
        continue;
      ++wrong;
      fmt::print("WRONG ids of {}: {}\n", c.text(), found);
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
