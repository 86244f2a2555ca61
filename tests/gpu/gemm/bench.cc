// SPDX-License-Identifier: Apache-2.0
// The GEMM against cuBLASLt's best algorithm, on one GPU, by design.md section 7: all variants of a
// row in one run, shuffled, graph replays over rotating buffers, each sample after 40 ms of its own
// load.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "backend/cuda/cublas.h"
#include "backend/cuda/cuda_check.h"
#include "backend/cuda/gemm.h"
#include "core/check.h"
#include "gemm/data.h"
#include "gemm/rows.h"

namespace tilelace::test {
namespace {

constexpr std::size_t kBeyondL2 = 160U << 20;  // of one operand's copies together
constexpr double kLoadMs = 40;

struct Options {
  std::vector<std::string> models{"gpt3", "llama70b", "qwen32b"};
  std::vector<int> ranks{2, 4, 8};
  std::vector<std::int64_t> ms{16, 64, 256, 512, 1024, 2048, 4096, 8192, 16384};
  std::vector<std::string> tiles;
  std::string part = "0/1";
  std::string json, commit, summary;
  int candidates = 28;
  double tolerance = 1.45;
  int finalists = 2;
  int rounds = 7;
  double sample_ms = 8;
  double quick_ms = 10;
  bool once = false;
  bool all = false;
  bool plain = false;
};

/// Copies of a row's tensors, used in turn.
class Pool {
 public:
  explicit Pool(std::size_t bytes) : bytes_(bytes) {
    cuda::check(cudaMalloc(&data_, bytes), "memory for operands");
  }
  ~Pool() { cudaFree(data_); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  [[nodiscard]] void* at(int i, std::size_t size) const {
    const std::size_t padded = (size + 1023) / 1024 * 1024;
    const std::size_t copies =
        std::clamp<std::size_t>((kBeyondL2 + padded - 1) / padded, 1, bytes_ / padded);
    return static_cast<std::byte*>(data_) + static_cast<std::size_t>(i) % copies * padded;
  }
  void* data_ = nullptr;
  std::size_t bytes_;
};

struct Variant {
  std::string name;
  std::function<void(int, cudaStream_t)> launch;
  int plan = -1;  ///< index of ours, -1: cublas
  cudaGraphExec_t graph = nullptr;
  int calls = 0;  ///< in the graph
  double quick_us = 0;
  std::vector<double> samples{};
  [[nodiscard]] double median() const {
    auto s = samples;
    std::sort(s.begin(), s.end());
    return s[s.size() / 2];
  }
  [[nodiscard]] double spread() const {
    auto s = samples;
    std::sort(s.begin(), s.end());
    return s[s.size() * 9 / 10] / s[s.size() / 10];
  }
};

class Bench {
 public:
  explicit Bench(const Options& o) : o_(o), a_(1UL << 30), weight_(2UL << 30), out_(2UL << 30) {
    cuda::check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    cuda::check(cudaEventCreate(&begin_), "event");
    cuda::check(cudaEventCreate(&end_), "event");
    fill_normal(a_.data_, a_.bytes_ / 2, DType::bf16, 1, stream_);
    fill_normal(weight_.data_, weight_.bytes_ / 2, DType::bf16, 2, stream_);
    cuda::load_gemm_kernels();
    cudaDeviceProp properties{};
    cuda::check(cudaGetDeviceProperties(&properties, 0), "device");
    device_ = properties.name;
    cuda::check(cudaDriverGetVersion(&driver_), "driver version");
  }

  nlohmann::json row(const GemmRow& row);
  void once(const GemmRow& row);

 private:
  cuda::GemmTensors tensors(const plan::GemmProblem& p, int i) const {
    return {a_.at(i, static_cast<std::size_t>(p.m * p.k) * 2),
            weight_.at(i, static_cast<std::size_t>(p.n * p.k) * 2), nullptr,
            out_.at(i, static_cast<std::size_t>(p.m * p.n) * 2), Activation::none};
  }
  Variant ours(const plan::GemmPlan& plan, const plan::GemmProblem& p, int index) const;
  void capture(Variant& v, double guess_us);
  double time_us(const Variant& v, double load_ms, double sample_ms);
  std::vector<Variant> best_of_cublas(const cuda::CublasGemm& blas, const plan::GemmProblem& p,
                                      double guess_us);
  std::vector<Variant> best_of_ours(const std::vector<plan::GemmPlan>& plans,
                                    const plan::GemmProblem& p, double guess_us);
  void first_look(std::vector<Variant>& all, double guess_us);
  static void release(std::vector<Variant>& list, std::size_t keep);

  const Options& o_;
  Pool a_, weight_, out_;
  cuda::GemmWorkspace workspace_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  std::string device_;
  int driver_ = 0;
  std::mt19937 rng_{7};
};

Variant Bench::ours(const plan::GemmPlan& plan, const plan::GemmProblem& p, int index) const {
  auto calls = std::make_shared<std::vector<cuda::GemmCall>>();
  for (int i = 0; i < 32; ++i) calls->emplace_back(plan, p, tensors(p, i), workspace_.scratch());
  return {describe(plan),
          [calls](int i, cudaStream_t s) { (*calls)[static_cast<std::size_t>(i) % 32].launch(s); },
          index};
}

void Bench::capture(Variant& v, double guess_us) {
  v.calls = std::clamp(static_cast<int>(1000 / guess_us), 4, 32);
  cudaGraph_t graph = nullptr;
  cuda::check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < v.calls; ++i) v.launch(i, stream_);
  cuda::check(cudaStreamEndCapture(stream_, &graph), "capture");
  cuda::check(cudaGraphInstantiate(&v.graph, graph, 0), "graph");
  cuda::check(cudaGraphDestroy(graph), "graph");
  cuda::check(cudaGraphUpload(v.graph, stream_), "graph");
}

double Bench::time_us(const Variant& v, double load_ms, double sample_ms) {
  const double guess = v.quick_us > 0 ? v.quick_us : 100;
  const auto replays = [&](double ms) {
    return std::max(1, static_cast<int>(std::ceil(ms * 1000 / (guess * v.calls))));
  };
  for (int i = replays(load_ms); i > 0; --i)
    cuda::check(cudaGraphLaunch(v.graph, stream_), "replay");
  const int timed = replays(sample_ms);
  cuda::check(cudaEventRecord(begin_, stream_), "event");
  for (int i = 0; i < timed; ++i) cuda::check(cudaGraphLaunch(v.graph, stream_), "replay");
  cuda::check(cudaEventRecord(end_, stream_), "event");
  cuda::check(cudaEventSynchronize(end_), "replay");
  float ms = 0;
  cuda::check(cudaEventElapsedTime(&ms, begin_, end_), "event");
  return static_cast<double>(ms) * 1000 / timed / v.calls;
}

void Bench::release(std::vector<Variant>& list, std::size_t keep) {
  while (list.size() > keep) {
    cudaGraphExecDestroy(list.back().graph);
    list.pop_back();
  }
}

std::vector<Variant> Bench::best_of_cublas(const cuda::CublasGemm& blas, const plan::GemmProblem& p,
                                           double guess_us) {
  std::vector<Variant> all;
  for (int i = 0; i < blas.algorithms(); ++i) {
    Variant v{blas.describe(i),
              [this, &blas, &p, i](int c, cudaStream_t s) { blas.launch(tensors(p, c), i, s); }};
    capture(v, guess_us);
    all.push_back(std::move(v));
  }
  first_look(all, guess_us);
  release(all, static_cast<std::size_t>(o_.finalists));
  return all;
}

/// Every variant once forwards, once backwards: clocks drift while they run.
void Bench::first_look(std::vector<Variant>& all, double guess_us) {
  std::vector<double> seen(all.size());
  // Long products throttle: their clocks need longer to settle.
  const double look_ms = guess_us > 20 ? 2 * o_.quick_ms : o_.quick_ms;
  for (Variant& v : all) v.quick_us = guess_us;
  for (std::size_t i = 0; i < all.size(); ++i) seen[i] = time_us(all[i], look_ms, look_ms);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].quick_us = seen[i];
  for (std::size_t i = all.size(); i-- > 0;)
    all[i].quick_us = (seen[i] + time_us(all[i], look_ms, look_ms)) / 2;
  std::sort(all.begin(), all.end(),
            [](const Variant& x, const Variant& y) { return x.quick_us < y.quick_us; });
}

std::vector<Variant> Bench::best_of_ours(const std::vector<plan::GemmPlan>& plans,
                                         const plan::GemmProblem& p, double guess_us) {
  std::vector<Variant> all;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    Variant v = ours(plans[i], p, static_cast<int>(i));
    capture(v, guess_us);
    all.push_back(std::move(v));
  }
  first_look(all, guess_us);
  for (std::size_t i = 0; i < (o_.all ? all.size() : 0); ++i)
    fmt::print("    {:9.2f} us (predicted {:9.2f})  {}\n", all[i].quick_us,
               plans[static_cast<std::size_t>(all[i].plan)].predicted_us, all[i].name);
  release(all, static_cast<std::size_t>(o_.finalists));
  return all;
}

/// For a profiler: the first algorithms of cublas and the plans asked for, one launch each.
void Bench::once(const GemmRow& r) {
  const cuda::CublasGemm blas(r.problem);
  for (int i = 0; i < std::min(blas.algorithms(), 4); ++i) {
    fmt::print("once cublas {}\n", blas.describe(i));
    blas.launch(tensors(r.problem, i), i, stream_);
  }
  for (const auto& plan : plan::gemm_candidates(r.problem)) {
    if (std::find(o_.tiles.begin(), o_.tiles.end(), plan.tile.name) == o_.tiles.end()) continue;
    fmt::print("once {}\n", describe(plan));
    cuda::GemmCall(plan, r.problem, tensors(r.problem, 5), workspace_.scratch()).launch(stream_);
  }
  cuda::check(cudaStreamSynchronize(stream_), "one launch each");
}

nlohmann::json Bench::row(const GemmRow& r) {
  const auto& p = r.problem;
  const double flops =
      2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  const double bytes = 2.0 * static_cast<double>(p.m * p.k + p.n * p.k + p.m * p.n);
  const double guess = 5 + std::max(flops / 700e6, bytes / 4.2e6);
  auto plans = plan::gemm_candidates(p);
  if (!o_.tiles.empty())
    std::erase_if(plans, [&](const auto& c) {
      return std::find(o_.tiles.begin(), o_.tiles.end(), c.tile.name) == o_.tiles.end();
    });
  // The model is rougher where the tiles are few.
  const double limit = plans.at(0).predicted_us * (p.m >= 1024 ? 1.13 : o_.tolerance);
  std::erase_if(plans, [&](const auto& c) { return c.predicted_us > limit; });
  plans.resize(std::min(plans.size(), static_cast<std::size_t>(o_.candidates)));
  const cuda::CublasGemm blas(p);
  auto variants = best_of_cublas(blas, p, guess);
  const std::size_t theirs = variants.size();
  for (Variant& v : best_of_ours(plans, p, guess)) variants.push_back(std::move(v));
  if (o_.plain) {
    auto late = plans[static_cast<std::size_t>(variants[theirs].plan)];
    late.early_weights = false;
    variants.push_back(ours(late, p, variants[theirs].plan));
    variants.back().quick_us = variants[theirs].quick_us;
    capture(variants.back(), guess);
  }
  std::vector<std::size_t> order(variants.size());
  std::iota(order.begin(), order.end(), 0);
  for (int round = 0; round < o_.rounds; ++round) {
    std::shuffle(order.begin(), order.end(), rng_);
    for (const std::size_t i : order)
      variants[i].samples.push_back(time_us(variants[i], kLoadMs, o_.sample_ms));
  }
  const auto faster = [](const Variant& x, const Variant& y) { return x.median() < y.median(); };
  const auto middle = variants.begin() + static_cast<std::ptrdiff_t>(theirs);
  const Variant& cublas = *std::min_element(variants.begin(), middle, faster);
  const Variant& mine = *std::min_element(middle, variants.end() - (o_.plain ? 1 : 0), faster);
  // Verified where it was timed: the last call's result, at sampled places.
  const auto t = tensors(p, 0);
  poison(t.out, static_cast<std::size_t>(p.m * p.n) * 2, stream_);
  mine.launch(0, stream_);
  const auto judged =
      judge({t.a, t.weight, nullptr, t.out, p, Activation::none}, 4096, false, 0, stream_);
  const bool verified = judged.wrong == 0 && !workspace_.failed();
  const double ratio = cublas.median() / mine.median();
  fmt::print(
      "{:9} {} tp{} m {:5} n {:5} k {:5}  cublas {:8.2f} us  ours {:8.2f} us{}  {:6.1f} TF  ratio "
      "{:.3f}{}  {}\n",
      r.model, r.side, r.ranks, p.m, p.n, p.k, cublas.median(), mine.median(),
      o_.plain ? fmt::format(" (plain {:.2f})", variants.back().median()) : "",
      flops / mine.median() / 1e6, ratio, verified ? "" : "  WRONG", mine.name);
  std::fflush(stdout);
  nlohmann::json line = {
      {"schema", "tilelace.bench/1"},
      {"op", "gemm"},
      {"model", r.model},
      {"layer", r.side},
      {"ranks", r.ranks},
      {"m", p.m},
      {"n", r.n},
      {"k", r.k},
      {"rank_n", p.n},
      {"rank_k", p.k},
      {"dtype", name_of(p.dtype)},
      {"backend", "cuda"},
      {"mode", "graph"},
      {"cublas_us", cublas.median()},
      {"tilelace_us", mine.median()},
      {"tilelace_late_us", o_.plain ? nlohmann::json(variants.back().median()) : nlohmann::json()},
      {"speedup", ratio},
      {"roof_us", std::max(flops / 989e6, bytes / 4.8e6)},
      {"plan", mine.name},
      {"cublas_plan", cublas.name},
      {"predicted_us", plans[static_cast<std::size_t>(mine.plan)].predicted_us},
      {"error", judged.relative()},
      {"verified", verified},
      {"iterations", o_.rounds},
      {"spread", mine.spread()},
      {"cublas_spread", cublas.spread()},
      {"device", device_},
      {"driver", driver_},
      {"cublas_version", cuda::cublas_version()},
      {"commit", o_.commit},
      {"time", std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()}};
  release(variants, 0);
  return line;
}

/// Prints geomean and worst ratio against the bars; whether they are met.
bool summary(const std::vector<nlohmann::json>& lines) {
  bool met = true;
  for (const auto& [low, high, geomean, worst] :
       {std::tuple{1024, 1 << 30, 1.00, 0.97}, std::tuple{16, 512, 0.99, 0.93}}) {
    double log_sum = 0, least = 1e9;
    int count = 0, wrong = 0;
    for (const auto& l : lines) {
      if (l["m"].get<int>() < low || l["m"].get<int>() > high) continue;
      const double ratio = l["speedup"].get<double>();
      log_sum += std::log(ratio);
      least = std::min(least, ratio);
      wrong += l["verified"].get<bool>() ? 0 : 1;
      ++count;
    }
    if (count == 0) continue;
    fmt::print(
        "m {}..{}: {} rows, geomean {:.3f} (bar {:.2f}), worst {:.3f} (bar {:.2f}), {} wrong\n",
        low, std::min(high, 16384), count, std::exp(log_sum / count), geomean, least, worst, wrong);
    met = met && wrong == 0 && std::exp(log_sum / count) >= geomean && least >= worst;
  }
  return met;
}

int summarise(const Options& o) {
  std::ifstream file(o.summary);
  require(file.is_open(), "bench: --summary {}, got no such file, expected JSON lines", o.summary);
  std::vector<nlohmann::json> lines;
  for (std::string text; std::getline(file, text);) lines.push_back(nlohmann::json::parse(text));
  return summary(lines) ? 0 : 1;
}

int bench(const Options& o) {
  int part = 0, parts = 1;
  require(std::sscanf(o.part.c_str(), "%d/%d", &part, &parts) == 2 && parts > 0 && part >= 0 &&
              part < parts,
          "bench: --part {}, expected I/N with I < N", o.part);
  Bench b(o);
  std::ofstream file;
  if (!o.json.empty()) {
    file.open(o.json, std::ios::app);
    require(file.is_open(), "bench: --json {}, got a file that cannot be written, expected one",
            o.json);
  }
  const auto rows = gemm_rows(o.models, o.ranks, o.ms, DType::bf16);
  std::vector<nlohmann::json> lines;
  bool wrong = false;
  for (std::size_t i = static_cast<std::size_t>(part); i < rows.size();
       i += static_cast<std::size_t>(parts)) {
    if (o.once) {
      b.once(rows[i]);
      continue;
    }
    lines.push_back(b.row(rows[i]));
    wrong = wrong || !lines.back()["verified"].get<bool>();
    if (file.is_open()) file << lines.back().dump() << std::endl;
  }
  summary(lines);
  return wrong ? 1 : 0;
}

}  // namespace
}  // namespace tilelace::test

int main(int argc, char** argv) {
  CLI::App app("Times the GEMM against cuBLASLt's best algorithm on one GPU");
  tilelace::test::Options o;
  app.add_option("--models", o.models, "of gpt3, llama70b, qwen32b")->delimiter(',');
  app.add_option("--tp", o.ranks, "degrees of tensor parallelism")->delimiter(',');
  app.add_option("--m", o.ms, "rows")->delimiter(',');
  app.add_option("--tiles", o.tiles, "only these tile shapes")->delimiter(',');
  app.add_option("--part", o.part, "I/N: every N-th row from I, for N GPUs side by side");
  app.add_option("--candidates", o.candidates, "plans that are tried, best prediction first")
      ->capture_default_str();
  app.add_option("--tolerance", o.tolerance, "plans that are tried: predicted time over the best")
      ->capture_default_str();
  app.add_option("--finalists", o.finalists, "of each side, timed with care")
      ->capture_default_str();
  app.add_option("--rounds", o.rounds, "samples a variant")->capture_default_str();
  app.add_option("--sample-ms", o.sample_ms, "a sample's length")->capture_default_str();
  app.add_option("--quick-ms", o.quick_ms, "a first look's length")->capture_default_str();
  app.add_flag("--once", o.once, "launches each of --tiles and of cublas once, for a profiler");
  app.add_flag("--all", o.all, "prints every plan that was tried");
  app.add_flag("--plain", o.plain, "also without early weights (programmatic dependent launch)");
  app.add_option("--json", o.json, "appends JSON lines to this file");
  app.add_option("--summary", o.summary, "only sums up the lines of this file");
  app.add_option("--commit", o.commit, "goes into the record");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    return o.summary.empty() ? tilelace::test::bench(o) : tilelace::test::summarise(o);
  } catch (const tilelace::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return e.kind() == tilelace::ErrorKind::usage ? 2 : 3;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 3;
  }
}
