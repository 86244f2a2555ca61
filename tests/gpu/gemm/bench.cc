// SPDX-License-Identifier: Apache-2.0
// The GEMM against cuBLASLt's best algorithm, on one GPU, by design.md section 7: all variants of a
// row in one run.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/gemm/gemm_call.h"
#include "backend/cuda/measure/timer.h"
#include "backend/cuda/vendor/cublas.h"
#include "core/check.h"
#include "gemm/data.h"
#include "gemm/rows.h"
#include "json_lines.h"
#include "program.h"

namespace tilelace::test {
namespace {

using cuda::measure::Pool;
using cuda::measure::Timer;
using cuda::measure::Variant;

struct Options {
  std::vector<std::string> models{"gpt3", "llama70b", "qwen32b"};
  std::vector<int> ranks{2, 4, 8};
  std::vector<std::int64_t> ms{16,   64,   256,  300,  512,  777,  1024,
                               1300, 2048, 3001, 4096, 8192, 16384};
  std::vector<std::string> tiles;
  std::string part = "0/1";
  std::string json, commit, summary;
  int candidates = 20;
  int finalists = 2;
  int rounds = 7;
  double sample_ms = 8;
  double quick_ms = 10;
  bool once = false;
  bool all = false;
};

class Bench {
 public:
  explicit Bench(const Options& o)
      : o_(o), a_(1UL << 30), weight_(2UL << 30), out_(2UL << 30), timer_(o.quick_ms) {
    fill_normal(a_.data(), a_.bytes() / 2, DType::bf16, 1, timer_.stream());
    fill_normal(weight_.data(), weight_.bytes() / 2, DType::bf16, 2, timer_.stream());
    cuda::load_gemm_kernels();
    cudaDeviceProp properties{};
    cuda::check(cudaGetDeviceProperties(&properties, 0), "device");
    device_ = properties.name;
    cuda::check(cudaDriverGetVersion(&driver_), "driver version");
  }

  nlohmann::json row(const GemmRow& row);
  void once(const GemmRow& row);

 private:
  struct Result {
    const Variant *cublas, *best, *standard;
  };
  [[nodiscard]] cuda::GemmTensors tensors(const plan::GemmProblem& p, int i) const {
    return {a_.at(i, static_cast<std::size_t>(p.m * p.k) * 2),
            weight_.at(i, static_cast<std::size_t>(p.n * p.k) * 2), nullptr,
            out_.at(i, static_cast<std::size_t>(p.m * p.n) * 2), Activation::none};
  }
  [[nodiscard]] std::vector<plan::GemmPlan> plans_of(const plan::GemmProblem& p) const;
  [[nodiscard]] Variant ours(const plan::GemmPlan& plan, const plan::GemmProblem& p,
                             int index) const;
  [[nodiscard]] std::vector<Variant> best_of_cublas(const cuda::CublasGemm& blas,
                                                    const plan::GemmProblem& p,
                                                    double guess_us) const;
  [[nodiscard]] std::vector<Variant> best_of_ours(const std::vector<plan::GemmPlan>& plans,
                                                  const plan::GemmProblem& p,
                                                  double guess_us) const;
  Judgement verify(const Variant& v, const plan::GemmProblem& p);
  [[nodiscard]] nlohmann::json record(const GemmRow& r, const Result& x,
                                      const std::vector<plan::GemmPlan>& plans,
                                      const Judgement& judged, bool verified) const;

  const Options& o_;
  Pool a_, weight_, out_;
  Timer timer_;
  cuda::GemmWorkspace workspace_;
  std::string device_;
  int driver_ = 0;
};

struct Roof {
  double flops, bytes;
  explicit Roof(const plan::GemmProblem& p)
      : flops(2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k)),
        bytes(2.0 * static_cast<double>(p.m * p.k + p.n * p.k + p.m * p.n)) {}
  /// A first guess of the time under load.
  [[nodiscard]] double guess_us() const { return 5 + std::max(flops / 700e6, bytes / 4.2e6); }
  [[nodiscard]] double us() const { return std::max(flops / 989e6, bytes / 4.8e6); }
};

std::vector<plan::GemmPlan> Bench::plans_of(const plan::GemmProblem& p) const {
  auto plans = plan::gemm_candidates(p);
  if (!o_.tiles.empty())
    std::erase_if(plans, [&](const auto& c) {
      return std::find(o_.tiles.begin(), o_.tiles.end(), c.tile.name) == o_.tiles.end();
    });
  require(!plans.empty(), "bench: --tiles, got none that is compiled, expected one");
  plans.resize(std::min(plans.size(), static_cast<std::size_t>(std::max(1, o_.candidates))));
  return plans;
}

Variant Bench::ours(const plan::GemmPlan& plan, const plan::GemmProblem& p, int index) const {
  auto calls = std::make_shared<std::vector<cuda::GemmCall>>();
  for (int i = 0; i < 32; ++i) calls->emplace_back(plan, p, tensors(p, i), workspace_.scratch());
  return {describe(plan),
          [calls](int i, cudaStream_t s) { (*calls)[static_cast<std::size_t>(i) % 32].launch(s); },
          index};
}

std::vector<Variant> Bench::best_of_cublas(const cuda::CublasGemm& blas, const plan::GemmProblem& p,
                                           double guess_us) const {
  std::vector<Variant> all;
  for (int i = 0; i < blas.algorithms(); ++i)
    all.push_back({blas.describe(i), [this, &blas, &p, i](int c, cudaStream_t s) {
                     blas.launch(tensors(p, c), i, s);
                   }});
  timer_.first_look(all, guess_us);
  Timer::keep(all, static_cast<std::size_t>(o_.finalists));
  return all;
}

/// The finalists, and the plan that is predicted to be the fastest, wherever it came in.
std::vector<Variant> Bench::best_of_ours(const std::vector<plan::GemmPlan>& plans,
                                         const plan::GemmProblem& p, double guess_us) const {
  std::vector<Variant> all;
  for (std::size_t i = 0; i < plans.size(); ++i)
    all.push_back(ours(plans[i], p, static_cast<int>(i)));
  timer_.first_look(all, guess_us);
  for (std::size_t i = 0; i < (o_.all ? all.size() : 0); ++i)
    fmt::print("    {:9.2f} us (predicted {:9.2f})  {}\n", all[i].quick_us,
               plans[static_cast<std::size_t>(all[i].plan)].predicted_us, all[i].name);
  const auto standard =
      std::find_if(all.begin(), all.end(), [](const Variant& v) { return v.plan == 0; });
  const auto last = all.begin() + std::min<std::ptrdiff_t>(o_.finalists, std::ssize(all)) - 1;
  if (standard > last) std::rotate(last + 1, standard, standard + 1);
  Timer::keep(all, static_cast<std::size_t>(o_.finalists) + (standard > last ? 1 : 0));
  return all;
}

/// For a profiler: the first algorithms of cublas and the plans asked for, one launch each.
void Bench::once(const GemmRow& r) {
  const cuda::CublasGemm blas(r.problem);
  for (int i = 0; i < std::min(blas.algorithms(), 4); ++i) {
    fmt::print("once cublas {}\n", blas.describe(i));
    blas.launch(tensors(r.problem, i), i, timer_.stream());
  }
  for (const auto& plan : plans_of(r.problem)) {
    fmt::print("once {}\n", describe(plan));
    cuda::GemmCall(plan, r.problem, tensors(r.problem, 5), workspace_.scratch())
        .launch(timer_.stream());
  }
  cuda::check(cudaStreamSynchronize(timer_.stream()), "one launch each");
}

/// At sampled places, on a poisoned result.
Judgement Bench::verify(const Variant& v, const plan::GemmProblem& p) {
  const auto t = tensors(p, 0);
  poison(t.out, static_cast<std::size_t>(p.m * p.n) * 2, timer_.stream());
  v.launch(0, timer_.stream());
  workspace_.look(timer_.stream());
  return judge({t.a, t.weight, nullptr, t.out, p, Activation::none}, 4096, false, 0,
               timer_.stream());
}

nlohmann::json Bench::row(const GemmRow& r) {
  const auto& p = r.problem;
  const double guess = Roof(p).guess_us();
  const auto plans = plans_of(p);
  const cuda::CublasGemm blas(p);
  auto variants = best_of_cublas(blas, p, guess);
  const auto theirs = static_cast<std::ptrdiff_t>(variants.size());
  for (Variant& v : best_of_ours(plans, p, guess)) variants.push_back(std::move(v));
  timer_.sample(variants, o_.rounds, o_.sample_ms);

  const auto faster = [](const Variant& x, const Variant& y) { return x.median() < y.median(); };
  const auto middle = variants.begin() + theirs;
  const Result x{
      &*std::min_element(variants.begin(), middle, faster),
      &*std::min_element(middle, variants.end(), faster),
      &*std::find_if(middle, variants.end(), [](const Variant& v) { return v.plan == 0; })};
  const auto judged = verify(*x.best, p);
  const bool verified = judged.wrong == 0 && !workspace_.failed();
  fmt::print(
      "{:9} {} tp{} m {:5} n {:5} k {:5}  cublas {:8.2f} us  ours {:8.2f} us  default {:8.2f} us  "
      "{:6.1f} TF  ratio {:.3f}{}  {}\n",
      r.model, r.side, r.ranks, p.m, p.n, p.k, x.cublas->median(), x.best->median(),
      x.standard->median(), Roof(p).flops / x.best->median() / 1e6,
      x.cublas->median() / x.best->median(), verified ? "" : "  WRONG", x.best->name);
  std::fflush(stdout);
  nlohmann::json line = record(r, x, plans, judged, verified);
  Timer::keep(variants, 0);
  return line;
}

nlohmann::json Bench::record(const GemmRow& r, const Result& x,
                             const std::vector<plan::GemmPlan>& plans, const Judgement& judged,
                             bool verified) const {
  const auto& p = r.problem;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {{"schema", "tilelace.bench/1"},
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
          {"cublas_us", x.cublas->median()},
          {"tilelace_us", x.best->median()},
          {"default_us", x.standard->median()},
          {"speedup", x.cublas->median() / x.best->median()},
          {"roof_us", Roof(p).us()},
          {"plan", x.best->name},
          {"default_plan", x.standard->name},
          {"cublas_plan", x.cublas->name},
          {"predicted_us", plans[static_cast<std::size_t>(x.best->plan)].predicted_us},
          {"error", judged.relative()},
          {"verified", verified},
          {"iterations", o_.rounds},
          {"spread", x.best->spread()},
          {"cublas_spread", x.cublas->spread()},
          {"device", device_},
          {"driver", driver_},
          {"cublas_version", cuda::cublas_version()},
          {"commit", o_.commit},
          {"time", std::chrono::duration_cast<std::chrono::seconds>(now).count()}};
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
  gpu_test::JsonLines json(o.json, true);
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
    json.write(lines.back());
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
  app.add_option("--finalists", o.finalists, "of each side, timed with care")
      ->capture_default_str();
  app.add_option("--rounds", o.rounds, "samples a variant")->capture_default_str();
  app.add_option("--sample-ms", o.sample_ms, "a sample's length")->capture_default_str();
  app.add_option("--quick-ms", o.quick_ms, "a first look's length")->capture_default_str();
  app.add_flag("--once", o.once, "launches each of --tiles and of cublas once, for a profiler");
  app.add_flag("--all", o.all, "prints every plan that was tried");
  app.add_option("--json", o.json, "appends JSON lines to this file");
  app.add_option("--summary", o.summary, "only sums up the lines of this file");
  app.add_option("--commit", o.commit, "goes into the record");
  return tilelace::gpu_test::run_program("gpu_gemm_bench", app, argc, argv, [&] {
    return o.summary.empty() ? tilelace::test::bench(o) : tilelace::test::summarise(o);
  });
}
