// SPDX-License-Identifier: Apache-2.0
// Conformance of the mixture of experts on one GPU: random and edge routings, exact integers and an
// fp64 reference, poisoned rows and results, graphs whose routing changes, repeated runs.
// Exit 0: all right, 1: a result was wrong.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <set>
#include <span>

#include "backend/cuda/moe/tile_words.h"
#include "json_lines.h"
#include "moe/layer.h"
#include "program.h"

namespace tilelace::gpu_test {
namespace {

constexpr int kPairsOfOneCta = 2048;  ///< of more pairs several CTAs make a map (moe_map.cu)

struct Options {
  int shapes = 250;  ///< a type
  std::uint64_t seed = 1;
  std::vector<std::string> dtypes{"bf16", "fp16"};
  int graphs = 6, repeats = 100, calls = 2000;
  bool small = false, drop = false;
  std::string json, commit;
};

class Check {
 public:
  explicit Check(const Options& o) : o_(o), rng_(o.seed), router_(o.seed + 1) {
    cuda::load_grouped_gemm();
    cuda::load_moe_rows();
    cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
  }
  Check(const Check&) = delete;
  Check& operator=(const Check&) = delete;
  ~Check() { cudaStreamDestroy(stream_); }

  int all();

 private:
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(rng_() % static_cast<std::uint64_t>(end));
  }
  template <class T>
  T one_of(std::initializer_list<T> of) {
    return *(of.begin() + below(static_cast<std::int64_t>(of.size())));
  }
  LayerShape draw(DType);
  int shapes(DType);
  int maps();
  int graphs(DType);
  int repeats(DType);
  int beside(DType dtype);
  int calls(DType);
  void run(Layer& layer) {
    layer.poison_results();
    layer.run(stream_);
    layer.run(stream_);  // begins under the end of the first
    cuda::check(cudaStreamSynchronize(stream_), "a layer");
  }
  void note(const char* what, DType dtype, int count, int wrong, double worst = 0);

  const Options& o_;
  std::mt19937_64 rng_;
  Router router_;
  std::span<const plan::GroupedShape> shapes_ = cuda::grouped_shapes();
  cudaStream_t stream_ = nullptr;
  JsonLines json_{o_.json, true};
};

std::string text_of(const LayerShape& s) {
  constexpr const char* kAdded[] = {"", " add", " add to some"};
  return fmt::format(
      "{} m {} top {} experts {} from {} of {}, {} hidden {} inner {} gating {} {}{}{}{}{}{}, "
      "tiles "
      "{} {}",
      name_of(s.dtype), s.map.m, s.map.top_k, s.map.here, s.map.first, s.map.experts,
      s.wide ? "int64" : "int32", s.hidden, s.inner, static_cast<int>(s.gating),
      name_of(s.activation), s.bias ? " bias" : "", s.weighted ? " weighted" : "",
      s.scaled ? " scaled" : "", kAdded[static_cast<std::size_t>(s.added)], s.exact ? " exact" : "",
      s.up.name, s.down.name);
}

LayerShape Check::draw(DType dtype) {
  LayerShape s;
  s.dtype = dtype;
  const int part = o_.small ? 3 : 1;
  s.map.top_k = 1 + below(8);
  s.map.m = below(12) == 0 ? below(3) : 1 + below(900 / part / s.map.top_k);
  s.map.experts = one_of<std::int64_t>({1, 2, 3, 8, 16, 33, 64});
  s.map.here = below(2) == 0 ? s.map.experts : 1 + below(s.map.experts);
  s.map.first = below(s.map.experts - s.map.here + 1);
  s.wide = below(2) == 0;
  s.hidden = below(2) == 0 ? one_of<std::int64_t>({8, 64, 72, 128, 136, 256, 264}) /
                                 (o_.small ? 2 : 1) / 8 * 8
                           : 8 * (1 + below(40 / part));
  s.hidden = std::max<std::int64_t>(s.hidden, 8);
  s.inner = below(2) == 0
                ? one_of<std::int64_t>({8, 64, 120, 128, 192, 256}) / (o_.small ? 2 : 1) / 8 * 8
                : 8 * (1 + below(40 / part));
  s.inner = std::max<std::int64_t>(s.inner, 8);
  // More tiles than a GPU has multiprocessors, more steps than a ring has stages.
  if (below(4) == 0)
    (below(2) == 0 ? s.hidden : s.inner) = o_.small ? 8 * (32 + below(64)) : 8 * (64 + below(64));
  s.exact = below(3) == 0;
  if (!s.exact) {
    s.gating = static_cast<cuda::Gating>(below(3));
    if (s.gating == cuda::Gating::one) s.activation = static_cast<Activation>(below(4));
  }
  s.bias = below(2) == 0;
  s.scaled = below(2) == 0;
  s.weighted = below(4) == 0;
  s.added = static_cast<Added>(below(3));
  for (plan::GroupedShape* const shape : {&s.up, &s.down})
    *shape = shapes_[static_cast<std::size_t>(below(std::ssize(shapes_)))];
  return s;
}

void Check::note(const char* what, DType dtype, int count, int wrong, double worst) {
  fmt::print("{} {}: {} runs, {} wrong, worst error {:.3f} of its bound\n", name_of(dtype), what,
             count, wrong, worst);
  json_.write({{"schema", "tilelace.conformance/1"},
               {"op", "moe"},
               {"what", what},
               {"dtype", name_of(dtype)},
               {"runs", count},
               {"wrong", wrong},
               {"worst_of_bound", worst},
               {"dropped", o_.drop},
               {"commit", o_.commit}});
}

int Check::shapes(DType dtype) {
  int wrong = 0;
  int unseen = 0;
  double worst = 0;
  for (int i = 0; i < o_.shapes; ++i) {
    const LayerShape s = draw(dtype);
    Layer layer(s, rng_());
    const Routing routing = kRoutings[static_cast<std::size_t>(i) % std::size(kRoutings)];
    layer.route(router_.draw(s.map, routing));
    run(layer);
    const std::string trouble = layer.trouble(o_.drop ? 1 : 0);
    worst = std::max(worst, layer.worst());
    if (o_.drop) {
      const bool has_rows =
          routing == Routing::uniform && s.map.m > 0 && s.map.here == s.map.experts;
      if (has_rows && trouble.empty()) ++unseen;
      continue;
    }
    if (trouble.empty()) continue;
    if (++wrong <= 12) fmt::print("WRONG {}, {}: {}\n", text_of(s), name_of(routing), trouble);
  }
  if (o_.drop) fmt::print("dropped k: {} results passed that must not\n", unseen);
  note("shapes", dtype, o_.shapes, o_.drop ? unseen : wrong, worst);
  return o_.drop ? unseen : wrong;
}

/// Maps by themselves, of so many pairs that several CTAs make one.
int Check::maps() {
  int wrong = 0;
  const int count = o_.small ? 2 : 40;
  for (int i = 0; i < count; ++i) {
    LayerShape s;
    s.map.top_k = 1 + below(8);
    s.map.m = 1 + (kPairsOfOneCta + below(o_.small ? 2000 : 200000)) / s.map.top_k;
    s.map.experts = one_of<std::int64_t>({3, 64, 128, 256, 700, 1024});
    s.map.here = below(2) == 0 ? s.map.experts : 1 + below(s.map.experts);
    s.map.first = below(s.map.experts - s.map.here + 1);
    const auto words = static_cast<std::size_t>(s.map.words());
    const Ids ids = router_.draw(s.map, one_of({Routing::one_hot, Routing::holes, Routing::wrong}));
    const Buffer on_gpu(ids.size() * 8), map(words * 4), rows(ids.size() * 16), x(ids.size() * 16);
    on_gpu.upload(ids);
    cuda::make_map({s.map, on_gpu.data(), true, map.as<std::int32_t>()}, stream_);
    cuda::permute_rows({s.map, map.as<std::int32_t>(), x.data(), rows.data(), 8, DType::bf16},
                       stream_);
    cuda::check(cudaStreamSynchronize(stream_), "a map");
    std::vector<std::int32_t> expected(words, -1);  // the poison
    fill_moe_map(s.map, ids.data(), expected.data());
    if (map.download<std::int32_t>(words) == expected && map.untouched(words * 4)) continue;
    ++wrong;
    fmt::print("WRONG map of {}\n", text_of(s));
  }
  note("maps", DType::bf16, count, wrong);
  return wrong;
}

/// A captured layer.
class LayerGraph {
 public:
  LayerGraph(const Layer& layer, cudaStream_t stream) : stream_(stream) {
    cudaGraph_t graph = nullptr;
    cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    layer.run(stream);
    cuda::check(cudaStreamEndCapture(stream, &graph), "capture");
    cuda::check(cudaGraphInstantiate(&made_, graph, 0), "graph");
    cuda::check(cudaGraphDestroy(graph), "graph");
  }
  LayerGraph(const LayerGraph&) = delete;
  LayerGraph& operator=(const LayerGraph&) = delete;
  ~LayerGraph() { cudaGraphExecDestroy(made_); }
  void launch() const { cuda::check(cudaGraphLaunch(made_, stream_), "replay"); }
  void replay() const {
    launch();
    cuda::check(cudaStreamSynchronize(stream_), "replay");
  }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t made_ = nullptr;
};

/// Captured with one routing, replayed with all others.
int Check::graphs(DType dtype) {
  int wrong = 0;
  int count = 0;
  for (int i = 0; i < o_.graphs; ++i) {
    LayerShape s = draw(dtype);
    s.map.m = std::max<std::int64_t>(s.map.m, 40);
    Layer layer(s, rng_());
    layer.route(router_.draw(s.map, Routing::uniform));
    run(layer);
    const LayerGraph graph(layer, stream_);
    for (const Routing routing : kRoutings) {
      layer.route(router_.draw(s.map, routing));
      layer.poison_results();
      graph.replay();
      ++count;
      const std::string trouble = layer.trouble();
      if (trouble.empty()) continue;
      ++wrong;
      fmt::print("WRONG replay of {}, {}: {}\n", text_of(s), name_of(routing), trouble);
    }
  }
  note("replays", dtype, count, wrong);
  return wrong;
}

/// The same bits in every run.
int Check::repeats(DType dtype) {
  int wrong = 0;
  for (const plan::GroupedShape& shape : shapes_) {
    LayerShape s = draw(dtype);
    s.map.m = o_.small ? 50 : 300;
    s.exact = false;
    s.up = s.down = shape;
    Layer layer(s, rng_());
    layer.route(router_.draw(s.map, Routing::zipf));
    run(layer);
    const auto first = layer.result();
    for (int i = 1; i < o_.repeats; ++i) {
      run(layer);
      wrong += layer.result() == first ? 0 : 1;
    }
  }
  note("repeats", dtype, static_cast<int>(shapes_.size()) * o_.repeats, wrong);
  return wrong;
}

/// Whether products that may run at the same time, and only these, have words of their own.
bool words_are_apart(cudaStream_t one, cudaStream_t other) {
  std::set<const void*> words{cuda::tile_word(one), cuda::tile_word(other), cuda::tile_word(one)};
  const bool by_stream = words.size() == 2;
  cudaGraph_t graph = nullptr;
  cuda::check(cudaStreamBeginCapture(one, cudaStreamCaptureModeThreadLocal), "capture");
  words.insert(cuda::tile_word(one));
  words.insert(cuda::tile_word(one));
  cuda::check(cudaStreamEndCapture(one, &graph), "capture");
  cuda::check(cudaGraphDestroy(graph), "graph");
  return by_stream && words.size() == 4 && !words.contains(nullptr);
}

/// Two layers at a time, each on its own stream: called, then replayed.
int Check::beside(DType dtype) {
  int wrong = 0;
  cudaStream_t other = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "a stream");
  wrong += words_are_apart(stream_, other) ? 0 : 1;
  const auto has_trouble = [&](const Layer& a, const Layer& b) {
    cuda::check(cudaStreamSynchronize(stream_), "one of two layers");
    cuda::check(cudaStreamSynchronize(other), "one of two layers");
    return !a.trouble().empty() || !b.trouble().empty();
  };
  for (int i = 0; i < o_.graphs; ++i) {
    LayerShape s = draw(dtype);
    s.map = {o_.small ? 60 : 400, 4, 16, 0, 16};
    Layer first(s, rng_());
    Layer second(s, rng_());
    for (Layer* const layer : {&first, &second}) {
      layer->route(router_.draw(s.map, Routing::zipf));
      layer->poison_results();
    }
    first.run(stream_);
    second.run(other);
    wrong += has_trouble(first, second) ? 1 : 0;
    const LayerGraph of_first(first, stream_);
    const LayerGraph of_second(second, other);
    first.poison_results();
    second.poison_results();
    of_first.launch();
    of_second.launch();
    wrong += has_trouble(first, second) ? 1 : 0;
  }
  cudaStreamDestroy(other);
  note("beside", dtype, 2 * o_.graphs, wrong);
  return wrong;
}

/// Many replays whose routing changes; each result is that of an eager call.
int Check::calls(DType dtype) {
  LayerShape s = draw(dtype);
  s.map = {o_.small ? 20 : 160, 4, 16, 0, 16};
  Layer layer(s, rng_());
  struct Known {
    Ids ids;
    std::vector<std::uint16_t> result;
  };
  std::vector<Known> known;
  int wrong = 0;
  for (const Routing routing : kRoutings) {
    known.push_back({router_.draw(s.map, routing), {}});
    layer.route(known.back().ids);
    run(layer);
    wrong += layer.trouble().empty() ? 0 : 1;
    known.back().result = layer.result();
  }
  const LayerGraph graph(layer, stream_);
  for (int i = 0; i < o_.calls; ++i) {
    const Known& k =
        known[static_cast<std::size_t>(below(static_cast<std::int64_t>(known.size())))];
    layer.route(k.ids);
    graph.replay();
    wrong += layer.result() == k.result ? 0 : 1;
  }
  note("calls", dtype, o_.calls, wrong);
  return wrong;
}

int Check::all() {
  int wrong = o_.drop ? 0 : maps();
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    if (std::find(o_.dtypes.begin(), o_.dtypes.end(), name_of(dtype)) == o_.dtypes.end()) continue;
    wrong += shapes(dtype);
    if (o_.drop) continue;
    wrong += graphs(dtype) + repeats(dtype) + beside(dtype) + calls(dtype);
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tilelace::gpu_test

int main(int argc, char** argv) {
  CLI::App app("Checks the mixture of experts of this GPU against exact integers and fp64");
  tilelace::gpu_test::Options o;
  app.add_option("--shapes", o.shapes, "random layers a type")->capture_default_str();
  app.add_option("--graphs", o.graphs, "graphs a type, each replayed with all routings")
      ->capture_default_str();
  app.add_option("--repeats", o.repeats, "runs that must have the same bits")
      ->capture_default_str();
  app.add_option("--calls", o.calls, "replays with changing routings")->capture_default_str();
  app.add_flag("--small", o.small, "layers of a third of the size");
  app.add_option("--dtypes", o.dtypes, "of bf16, fp16")
      ->delimiter(',')
      ->check(CLI::IsMember({"bf16", "fp16"}));
  app.add_option("--seed", o.seed, "of shapes and data")->capture_default_str();
  app.add_option("--json", o.json, "appends JSON lines to this file");
  app.add_option("--commit", o.commit, "goes into the record");
  app.add_flag("--drop", o.drop, "test of the test: leaves k out of the reference");
  return tilelace::gpu_test::run_program("gpu_moe_check", app, argc, argv,
                                         [&] { return tilelace::gpu_test::Check(o).all(); });
}
