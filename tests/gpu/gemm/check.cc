// SPDX-License-Identifier: Apache-2.0
// Conformance of the GEMM on one GPU: random and edge shapes, exact integers and an fp64 reference,
// every compiled tile, poisoned results with guard bands. Exit 0: all right, 1: a result was wrong.
#include "core/check.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "backend/cuda/cuda_check.h"
#include "backend/cuda/gemm.h"
#include "gemm/data.h"
#include "program.h"

namespace tilelace::test {
namespace {

constexpr std::int64_t kMostRows = 1100, kMostCols = 1400, kMostK = 2100;
constexpr std::size_t kGuard = 1 << 16;  // bytes before and after the result

struct Options {
  int shapes = 500;
  std::uint64_t seed = 1;
  std::string tile;
  std::vector<std::string> dtypes{"bf16", "fp16"};
  std::string json, commit;
  bool drop = false, small = false;
};

struct Case {
  plan::GemmProblem problem;
  plan::GemmPlan plan;
  bool exact = false;
  bool bias = false;
  Activation activation = Activation::none;
};

class Buffers {
 public:
  Buffers() {
    a_ = make(kMostRows * kMostK);
    weight_ = make(kMostCols * kMostK);
    bias_ = make(kMostCols);
    out_ = make(kMostRows * kMostCols + 2 * kGuard);
  }
  ~Buffers() {
    for (void* p : all_) cudaFree(p);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  void* a_;
  void* weight_;
  void* bias_;
  void* out_;

 private:
  void* make(std::int64_t elements) {
    void* p = nullptr;
    cuda::check(cudaMalloc(&p, static_cast<std::size_t>(elements) * 2), "memory for operands");
    all_.push_back(p);
    return p;
  }
  std::vector<void*> all_;
};

std::int64_t pick(std::mt19937_64& rng, std::initializer_list<std::int64_t> edges,
                  std::int64_t most, std::int64_t unit) {
  const auto any = [&](std::int64_t end) {
    return static_cast<std::int64_t>(rng() % static_cast<std::uint64_t>(end));
  };
  if (any(2) == 0) {
    const auto edge = *(edges.begin() + any(static_cast<std::int64_t>(edges.size())));
    return std::min(most / unit * unit, (edge + unit - 1) / unit * unit);
  }
  return (1 + any(most / unit)) * unit;
}

int multiprocessors() {
  static const int count = [] {
    int all = 0;
    cuda::check(cudaDeviceGetAttribute(&all, cudaDevAttrMultiProcessorCount, 0), "device");
    return all;
  }();
  return count;
}

/// Of this tile. Tiles that the planner leaves to more rows are taken all the same.
std::vector<plan::GemmPlan> plans_of(const plan::GemmTile& tile, plan::GemmProblem p) {
  constexpr std::int64_t kRowsOfAcross = 65;
  if (plan::is_across(tile)) p.m = std::max(p.m, kRowsOfAcross);
  std::vector<plan::GemmPlan> legal;
  for (const auto& candidate : plan::gemm_candidates(p, {multiprocessors()}))
    if (candidate.tile.name == tile.name) legal.push_back(candidate);
  require(!legal.empty(), "tile {}: got no plan for {} rows, expected one", tile.name, p.m);
  return legal;
}

/// Those that this build has.
std::vector<plan::GemmTile> made_tiles(DType dtype) {
  std::vector<plan::GemmTile> tiles;
  for (const plan::GemmTile& tile : plan::kGemmTiles)
    if (cuda::has_kernel({tile}, dtype)) tiles.push_back(tile);
  return tiles;
}

/// The i-th case: tiles in turn, so that each is met; the rest drawn.
Case draw(std::mt19937_64& rng, int i, DType dtype, const Options& o) {
  Case c;
  static const std::array<std::vector<plan::GemmTile>, 2> made{made_tiles(DType::bf16),
                                                               made_tiles(DType::fp16)};
  const auto& tiles = made.at(dtype == DType::bf16 ? 0 : 1);
  plan::GemmTile tile = tiles[static_cast<std::size_t>(i) % std::size(tiles)];
  for (const auto& t : tiles)
    if (t.name == o.tile) tile = t;
  const std::int64_t r = tile.rows();
  const std::int64_t w = tile.width;
  const bool swapped = tile.swapped;
  const std::int64_t most = o.small ? 4 : 1;
  c.problem.dtype = dtype;
  c.problem.m =
      swapped ? pick(rng, {1, 7, 8, w - 1, w, w + 1, 2 * w, 3}, kMostRows / most, 1)
              : pick(rng, {1, 2, 63, 64, 65, r - 1, r, r + 1, 2 * r, 997}, kMostRows / most, 1);
  c.problem.gated = plan::can_gate(tile.name) && rng() % 2 == 0;
  const std::int64_t unit = c.problem.gated ? 16 : 8;
  c.problem.n = swapped ? pick(rng, {8, r - 8, r, r + 8, 2 * r, 1016}, kMostCols / most, unit)
                        : pick(rng, {8, w - 8, w, w + 8, 2 * w, 1016}, kMostCols / most, unit);
  c.problem.k = pick(rng, {8, 56, 64, 72, 128, 256, 320, 1016, 2048}, kMostK / most, 8);
  const auto legal = plans_of(tile, c.problem);
  c.plan = legal[rng() % legal.size()];
  c.plan.split_tiles = std::min(c.plan.split_tiles, plan::work_of(c.plan, c.problem).order.tiles());
  // Fewer workers than there are: more tiles a worker, other cuts.
  c.plan.workers = 1 + static_cast<int>(rng() % static_cast<std::uint64_t>(c.plan.workers));
  if (rng() % 2 == 0)
    c.plan.split_tiles = static_cast<int>(
        rng() % static_cast<std::uint64_t>(1 + plan::work_of(c.plan, c.problem).order.tiles()));
  if (c.plan.workers * c.plan.tile.cluster() > multiprocessors()) c.plan.split_tiles = 0;
  c.plan.along_cols = rng() % 2 == 0;
  c.plan.group = 1 + static_cast<int>(rng() % 8);
  c.plan.wide = 1 + static_cast<int>(rng() % 5);
  c.plan.deep = 1 + static_cast<int>(rng() % 4);
  c.plan.early_weights = rng() % 2 == 0;
  c.plan.weights_wait = rng() % 2 == 0;
  c.exact = !c.problem.gated && rng() % 2 == 0;
  c.bias = !c.exact && rng() % 2 == 0;
  if (!c.exact && rng() % 2 == 0) c.activation = static_cast<Activation>(1 + rng() % 3);
  if (c.problem.gated) c.activation = Activation::swiglu;
  return c;
}

struct Outcome {
  Judgement judged;
  std::uint64_t guards = 0;
  bool expired = false;
  [[nodiscard]] bool good() const { return judged.wrong == 0 && guards == 0 && !expired; }
};

Outcome run(const Case& c, std::uint64_t seed, Buffers& b, cuda::GemmWorkspace& workspace,
            std::int64_t skip_k, cudaStream_t stream) {
  const auto& p = c.problem;
  auto* out = static_cast<std::byte*>(b.out_) + kGuard;
  const auto bytes = static_cast<std::size_t>(p.m * p.out_n()) * 2;
  if (c.exact) {
    fill_sparse(b.a_, p.m, p.k, 32, p.dtype, seed, stream);
    fill_sparse(b.weight_, p.n, p.k, static_cast<int>(p.k), p.dtype, seed + 1, stream);
  } else {
    fill_normal(b.a_, static_cast<std::size_t>(p.m * p.k), p.dtype, seed, stream);
    fill_normal(b.weight_, static_cast<std::size_t>(p.n * p.k), p.dtype, seed + 1, stream);
    fill_normal(b.bias_, static_cast<std::size_t>(p.n), p.dtype, seed + 2, stream);
  }
  poison(b.out_, bytes + 2 * kGuard, stream);
  const void* bias = c.bias ? b.bias_ : nullptr;
  // Up lies behind the gate.
  const auto behind = [&](void* first, std::int64_t elements) -> const void* {
    return p.gated ? static_cast<std::byte*>(first) + elements * 2 : nullptr;
  };
  const void* up = behind(b.weight_, p.out_n() * p.k);
  const void* up_bias = c.bias ? behind(b.bias_, p.out_n()) : nullptr;
  const cuda::GemmCall call(c.plan, p, {b.a_, b.weight_, bias, out, c.activation, up, up_bias},
                            workspace.scratch());
  call.launch(stream);
  workspace.look(stream);
  Outcome result;
  result.judged = judge({b.a_, b.weight_, bias, out, p, c.activation, {}, up, up_bias}, 0, c.exact,
                        skip_k, stream);
  result.guards =
      count_unpoisoned(b.out_, kGuard, stream) + count_unpoisoned(out + bytes, kGuard, stream);
  if (c.plan.split_tiles > 0) result.expired = workspace.failed();
  return result;
}

std::string text_of(const Case& c) {
  return fmt::format(
      "{} m {} n {} k {} {}{}{}, {} of {} workers, {}", name_of(c.problem.dtype), c.problem.m,
      c.problem.n, c.problem.k, c.exact ? "exact" : "normal", c.bias ? " bias" : "",
      c.activation == Activation::none ? "" : fmt::format(" {}", name_of(c.activation)),
      describe(c.plan), c.plan.workers, c.plan.along_cols ? "along n" : "along m");
}

std::string device_name() {
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, 0), "device");
  return properties.name;
}

int check_all(const Options& o) {
  cuda::load_gemm_kernels();
  Buffers buffers;
  cuda::GemmWorkspace workspace;
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  std::mt19937_64 rng(o.seed);
  int bad = 0;
  nlohmann::json lines = nlohmann::json::array();
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    if (std::find(o.dtypes.begin(), o.dtypes.end(), name_of(dtype)) == o.dtypes.end()) continue;
    int exact = 0, shared = 0, gated = 0, wrong = 0;
    double worst = 0;
    for (int i = 0; i < o.shapes; ++i) {
      const Case c = draw(rng, i, dtype, o);
      const Outcome r = run(c, rng(), buffers, workspace,
                            o.drop ? std::min<std::int64_t>(c.problem.k, 64) : 0, stream);
      exact += c.exact ? 1 : 0;
      shared += c.plan.split_tiles > 0 ? 1 : 0;
      gated += c.problem.gated ? 1 : 0;
      if (!c.exact && c.activation == Activation::none && r.judged.checked >= 4096)
        worst = std::max(worst, r.judged.relative());
      if (r.good()) continue;
      if (++wrong <= 12 && !o.drop)
        fmt::print(
            "WRONG {}: {} of {} elements (row {}, column {}: got {}, expected {}), {} guard "
            "bytes{}\n",
            text_of(c), r.judged.wrong, r.judged.checked, r.judged.row, r.judged.col, r.judged.got,
            r.judged.expected, r.guards, r.expired ? ", a wait expired" : "");
    }
    fmt::print(
        "{}: {} shapes, {} exact, {} with shared k-steps, {} gated, {} wrong, worst relative error "
        "{:.5f} (limit {:.5f})\n",
        name_of(dtype), o.shapes, exact, shared, gated, wrong, worst, 0.52 * unit_roundoff(dtype));
    // Without its first k-steps every result must be found wrong.
    bad += o.drop ? o.shapes - wrong : wrong;
    if (!o.drop && worst > 0.52 * unit_roundoff(dtype)) ++bad;
    lines.push_back({{"schema", "tilelace.conformance/1"},
                     {"op", "gemm"},
                     {"dtype", name_of(dtype)},
                     {"shapes", o.shapes},
                     {"exact", exact},
                     {"shared", shared},
                     {"gated", gated},
                     {"wrong", wrong},
                     {"worst_error", worst},
                     {"dropped", o.drop},
                     {"device", device_name()},
                     {"commit", o.commit}});
  }
  if (!o.json.empty()) {
    std::ofstream file(o.json, std::ios::app);
    for (const auto& line : lines) file << line.dump() << "\n";
    if (!file)
      throw Error(
          ErrorKind::usage,
          fmt::format("check: {}, got a file that cannot be written, expected one", o.json));
  }
  if (o.drop) fmt::print("dropped k-steps: {} results passed that must not\n", bad);
  return bad == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tilelace::test

int main(int argc, char** argv) {
  CLI::App app("Checks the GEMM of this GPU against exact integers and fp64");
  tilelace::test::Options o;
  app.add_option("--shapes", o.shapes, "random shapes a type")->capture_default_str();
  app.add_flag("--small", o.small, "shapes up to a quarter as long each way");
  app.add_option("--dtypes", o.dtypes, "of bf16, fp16")
      ->delimiter(',')
      ->check(CLI::IsMember({"bf16", "fp16"}));
  app.add_option("--seed", o.seed, "of shapes and data")->capture_default_str();
  app.add_option("--tile", o.tile, "only this tile");
  app.add_option("--json", o.json, "appends JSON lines to this file");
  app.add_option("--commit", o.commit, "goes into the record");
  app.add_flag("--drop", o.drop, "test of the test: leaves k-steps out of the reference");
  return tilelace::gpu_test::run_program("gpu_gemm_check", app, argc, argv,
                                         [&] { return tilelace::test::check_all(o); });
}
