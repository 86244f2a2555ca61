// SPDX-License-Identifier: Apache-2.0
// Times the grouped product of models' experts beside a dense product of as many operations by
// cuBLASLt's best algorithm, and the passes around it. All variants of a row in one run: graphs,
// medians of samples in shuffled order. Weights of all experts are larger than L2, and activations
// rotate through more than L2.
#include <CLI/CLI.hpp>
#include <algorithm>

#include "backend/cuda/measure/fill.h"
#include "backend/cuda/measure/timer.h"
#include "backend/cuda/moe/moe_gpu.h"
#include "backend/cuda/vendor/cublas.h"
#include "core/check.h"
#include "json_lines.h"
#include "moe/buffer.h"
#include "moe/models.h"
#include "moe/routing.h"
#include "program.h"

namespace tilelace::gpu_test {
namespace {

using cuda::measure::Pool;
using cuda::measure::Timer;
using cuda::measure::Variant;

struct Options {
  std::vector<std::string> models{"mixtral-8x7b", "qwen3-30b-a3b", "qwen3-235b-a22b",
                                  "deepseek-v3/64"};
  std::vector<std::int64_t> ms{1, 64, 512, 2048, 8192};
  std::vector<std::string> routings{"uniform"};
  std::vector<std::string> forms{"many", "few"};
  std::vector<std::string> sides{"up", "down"};
  double memory_tb_s = 3.0;
  int rounds = 5;
  double sample_ms = 8;
  bool passes = false, dense = true;
  std::string json, commit;
};

/// A product of one side of a model.
struct Row {
  const MoeModel& model;
  bool up;
  std::int64_t m;
  Routing routing;
  [[nodiscard]] std::int64_t rows() const { return m * model.top_k; }
  [[nodiscard]] std::int64_t n() const { return up ? 2 * model.inner : model.hidden; }
  [[nodiscard]] std::int64_t k() const { return up ? model.hidden : model.inner; }
  [[nodiscard]] schedule::MoeMap map() const {
    return {m, model.top_k, model.experts, 0, model.experts};
  }
};

class Bench {
 public:
  explicit Bench(const Options& o)
      : o_(o), weight_(4UL << 30), x_(2UL << 30), out_(3UL << 30), timer_(4) {
    cuda::load_grouped_gemm();
    cuda::load_moe_rows();
    fill(weight_, 1);
    fill(x_, 2);
    cudaDeviceProp properties{};
    cuda::check(cudaGetDeviceProperties(&properties, 0), "device");
    device_ = properties.name;
  }
  void row(const Row&);
  void passes(const MoeModel&, std::int64_t m);

 private:
  void fill(const Pool& pool, std::uint64_t seed) const {
    cuda::measure::fill_normal(pool.data(), pool.bytes() / 2, DType::bf16, seed, timer_.stream());
  }
  void route(const Row&);
  [[nodiscard]] Variant grouped(const Row&, const std::string& form) const;
  [[nodiscard]] std::vector<Variant> dense(const Row&, double guess_us);
  [[nodiscard]] double computed(const Row&, const plan::GroupedShape&) const;
  void time(std::vector<Variant>& all, double guess_us) {
    timer_.first_look(all, guess_us);
    timer_.sample(all, o_.rounds, o_.sample_ms);
  }

  const Options& o_;
  JsonLines json_{o_.json, true};
  Pool weight_, x_, out_;
  Timer timer_;
  std::vector<std::unique_ptr<cuda::CublasGemm>> blas_;
  std::unique_ptr<Buffer> ids_, map_;
  std::vector<std::int32_t> begins_;
  std::string device_;
};

/// Of a form that names tiles before its epilogue, or null.
const plan::GroupedShape* shape_of(const std::string& form) {
  for (const plan::GroupedShape& shape : cuda::grouped_shapes())
    if (shape.name == std::string_view(form).substr(0, form.find('+'))) return &shape;
  return nullptr;
}

std::size_t bytes_of(std::int64_t elements) { return static_cast<std::size_t>(elements) * 2; }

void Bench::route(const Row& r) {
  const auto s = r.map();
  const Ids ids = Router(static_cast<std::uint64_t>(r.m)).draw(s, r.routing);
  ids_ = std::make_unique<Buffer>(ids.size() * 8);
  map_ = std::make_unique<Buffer>(static_cast<std::size_t>(s.words()) * 4);
  ids_->upload(ids);
  cuda::make_map({s, ids_->data(), true, map_->as<std::int32_t>()}, timer_.stream());
  cuda::check(cudaStreamSynchronize(timer_.stream()), "a map");
  begins_ = map_->download<std::int32_t>(static_cast<std::size_t>(s.here + 1));
}

cuda::GroupedGemm product_of(const Row& r) {
  cuda::GroupedGemm g;
  g.rows = r.rows();
  g.n = r.n();
  g.k = r.k();
  g.experts = static_cast<int>(r.model.experts);
  g.dtype = DType::bf16;
  return g;
}

/// form: tiles, then the epilogue: "" none, "+swiglu", "+scale".
Variant Bench::grouped(const Row& r, const std::string& form) const {
  const plan::GroupedShape* const shape = shape_of(form);
  require(shape != nullptr, "--forms: got {}, expected tiles of this GPU", form);
  cuda::GroupedGemm g = product_of(r);
  g.begins = map_->as<std::int32_t>();
  g.weight = weight_.data();
  if (form.ends_with("+swiglu")) g.gating = cuda::Gating::swiglu;
  if (form.ends_with("+scale")) {
    g.scale = reinterpret_cast<const float*>(weight_.data());
    g.sources = map_->as<std::int32_t>() + r.map().source_of();
  }
  return {form, [this, g, shape](int call, cudaStream_t stream) mutable {
            g.x = x_.at(call, bytes_of(g.rows * g.k));
            g.out = out_.at(call, bytes_of(g.rows * g.n));
            cuda::grouped_gemm(g, *shape, stream);
          }};
}

/// Algorithms of a dense product with as many rows.
std::vector<Variant> Bench::dense(const Row& r, double guess_us) {
  plan::GemmProblem p;
  p.m = r.rows();
  p.n = r.n();
  p.k = r.k();
  p.dtype = DType::bf16;
  blas_.push_back(std::make_unique<cuda::CublasGemm>(p, 8));
  const cuda::CublasGemm& blas = *blas_.back();
  std::vector<Variant> all;
  for (int a = 0; a < blas.algorithms(); ++a)
    all.push_back({"dense", [this, p, a, &blas](int call, cudaStream_t stream) {
                     blas.launch(
                         {x_.at(call, bytes_of(p.m * p.k)), weight_.at(call, bytes_of(p.n * p.k)),
                          nullptr, out_.at(call, bytes_of(p.m * p.n)), Activation::none},
                         a, stream);
                   }});
  timer_.first_look(all, guess_us);
  Timer::keep(all, 1);
  return all;
}

double Bench::computed(const Row& r, const plan::GroupedShape& shape) const {
  std::int64_t all = 0;
  for (std::size_t e = 0; e + 1 < begins_.size(); ++e)
    all += plan::computed_rows(shape, begins_[e + 1] - begins_[e]);
  return static_cast<double>(all) / static_cast<double>(r.rows());
}

void Bench::row(const Row& r) {
  route(r);
  const double flops =
      2.0 * static_cast<double>(r.rows()) * static_cast<double>(r.n()) * static_cast<double>(r.k());
  std::int64_t hit = 0;
  std::int32_t most = 0;
  for (std::size_t e = 0; e + 1 < begins_.size(); ++e) {
    hit += begins_[e + 1] > begins_[e] ? 1 : 0;
    most = std::max(most, begins_[e + 1] - begins_[e]);
  }
  const double weights = static_cast<double>(hit * r.n() * r.k()) * 2;
  const double guess = std::max(flops / 6e8, weights / 2.7e6) + 4;
  std::vector<Variant> all = o_.dense ? dense(r, guess) : std::vector<Variant>{};
  for (const auto& form : o_.forms) {
    if (form.ends_with("+swiglu") && !r.up) continue;
    if (form.ends_with("+scale") && r.up) continue;
    Variant v = grouped(r, form);
    timer_.capture(v, guess);
    v.quick_us = guess;
    v.quick_us = timer_.time_us(v, 4, 4);
    all.push_back(v);
  }
  timer_.sample(all, o_.rounds, o_.sample_ms);
  double dense_us = 0;
  for (const Variant& v : all)
    if (v.name == "dense") dense_us = v.median();
  for (const Variant& v : all) {
    const double us = v.median();
    const plan::GroupedShape* const shape = shape_of(v.name);
    const double q = shape == nullptr ? 1 : computed(r, *shape);
    const double by_flops = q * dense_us / (r.k() <= 384 ? 0.85 : 0.93);
    const double by_memory = weights / (o_.memory_tb_s * 1e6) / 0.92;
    const double bar = std::max(by_flops, by_memory) + 3;
    const bool taken = shape != nullptr && *shape == cuda::grouped_shape(product_of(r));
    fmt::print(
        "{:16} {:4} m {:5} {:8} {:13}{} {:9.1f} us {:4.0f} TF {:5.2f} TB/s q {:.3f} max/mean "
        "{:.2f} bar {:9.1f} {:.3f}\n",
        r.model.name, r.up ? "up" : "down", r.m, name_of(r.routing), v.name, taken ? "*" : " ", us,
        flops / us / 1e6, weights / us / 1e6, q,
        static_cast<double>(most) * static_cast<double>(r.model.experts) /
            static_cast<double>(r.rows()),
        bar, us / bar);
    json_.write({{"schema", "tilelace.moe_bench/1"},
                 {"model", r.model.name},
                 {"side", r.up ? "up" : "down"},
                 {"m", r.m},
                 {"routing", name_of(r.routing)},
                 {"form", v.name},
                 {"taken", taken},
                 {"us", us},
                 {"spread", v.spread()},
                 {"q", q},
                 {"bar_us", bar},
                 {"dense_us", dense_us},
                 {"experts_hit", hit},
                 {"device", device_},
                 {"commit", o_.commit}});
  }
  std::fflush(stdout);
  Timer::keep(all, 0);
}

/// The map, the permute and the sum.
void Bench::passes(const MoeModel& model, std::int64_t m) {
  const Row r{model, true, m, Routing::uniform};
  route(r);
  const auto s = r.map();
  auto* const map = map_->as<std::int32_t>();
  const auto h = model.hidden;
  std::vector<Variant> all;
  all.push_back({"map", [&, s](int, cudaStream_t stream) {
                   cuda::make_map({s, ids_->data(), true, map}, stream);
                 }});
  all.push_back({"permute", [&, s](int call, cudaStream_t stream) {
                   cuda::permute_rows({s, map, x_.at(call, bytes_of(s.m * h)),
                                       out_.at(call, bytes_of(s.pairs() * h)), h, DType::bf16},
                                      stream);
                 }});
  all.push_back({"sum", [&, s](int call, cudaStream_t stream) {
                   cuda::sum_slots({s, map, x_.at(call, bytes_of(s.pairs() * h)), nullptr,
                                    out_.at(call, bytes_of(s.m * h)), h, DType::bf16},
                                   stream);
                 }});
  time(all, 30);
  for (const Variant& v : all) {
    const double bytes = static_cast<double>((s.pairs() + s.m) * h) * 2;
    fmt::print("{:16} {:8} m {:5} {:9.1f} us {:.2f} TB/s\n", model.name, v.name, m, v.median(),
               v.name == "map" ? 0 : bytes / v.median() / 1e6);
    json_.write({{"schema", "tilelace.moe_bench/1"},
                 {"model", model.name},
                 {"pass", v.name},
                 {"m", m},
                 {"us", v.median()},
                 {"spread", v.spread()},
                 {"device", device_},
                 {"commit", o_.commit}});
  }
  Timer::keep(all, 0);
}

int bench(const Options& o) {
  Bench b(o);
  const auto has = [](const std::vector<std::string>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const MoeModel& model : kMoeModels) {
    if (!has(o.models, model.name)) continue;
    for (const std::int64_t m : o.ms) {
      if (o.passes) b.passes(model, m);
      for (const Routing routing : kRoutings)
        for (const bool up : {true, false})
          if (has(o.routings, name_of(routing)) && has(o.sides, up ? "up" : "down"))
            b.row({model, up, m, routing});
    }
  }
  return 0;
}

}  // namespace
}  // namespace tilelace::gpu_test

int main(int argc, char** argv) {
  CLI::App app("Times the grouped product of models' experts on this GPU");
  tilelace::gpu_test::Options o;
  app.add_option("--models", o.models)->delimiter(',');
  app.add_option("--m", o.ms, "tokens")->delimiter(',');
  app.add_option("--routings", o.routings, "uniform, zipf, one hot")->delimiter(',');
  app.add_option("--forms", o.forms, "few, many, brief, each with +swiglu or +scale")
      ->delimiter(',');
  app.add_option("--sides", o.sides, "up, down")->delimiter(',');
  app.add_option("--memory", o.memory_tb_s, "TB/s of the bar")->capture_default_str();
  app.add_option("--rounds", o.rounds)->capture_default_str();
  app.add_option("--sample-ms", o.sample_ms)->capture_default_str();
  app.add_flag("--passes", o.passes, "map, permute and sum, too");
  app.add_flag("!--no-dense", o.dense, "without cuBLASLt");
  app.add_option("--json", o.json, "appends JSON lines to this file");
  app.add_option("--commit", o.commit, "goes into the record");
  return tilelace::gpu_test::run_program("gpu_moe_bench", app, argc, argv,
                                         [&] { return tilelace::gpu_test::bench(o); });
}
