// SPDX-License-Identifier: Apache-2.0
// Conformance of the GEMM on one GPU: random and edge shapes, exact integers and an fp64 reference,
// every compiled tile, poisoned results with guard bands. Exit 0: all right, 1: a result was wrong.
#include "core/check.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <random>

#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/current_device.h"
#include "backend/cuda/gemm/gemm_call.h"
#include "device_architecture.h"
#include "device_place.h"
#include "gemm/data.h"
#include "json_lines.h"
#include "plan/gemm/architecture_plans.h"
#include "program.h"

namespace tilelace::test {
namespace {

constexpr std::int64_t kMostRows = 1100, kMostCols = 1400, kMostK = 2100;
/// More than operands (twice: a reference has its own) and results with their guards take.
constexpr std::size_t kMostBytes =
    (2 * (kMostRows + kMostCols) * kMostK + kMostRows * kMostCols) * 2 + (1 << 20);

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
  bool weights_wait = false;
  bool exact = false;
  bool bias = false;
  Activation activation = Activation::none;
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
  static const int count = cuda::multiprocessors_of(0);
  return count;
}

int architecture() {
  static const int row = gpu_test::architecture_of_device(0);
  return row;
}

/// Of this tile. Tiles that the planner leaves to more rows are taken all the same.
std::vector<plan::GemmPlan> plans_of(const plan::GemmTile& tile, plan::GemmProblem p) {
  constexpr std::int64_t kRowsOfAcross = 65;
  if (plan::is_across(tile)) p.m = std::max(p.m, kRowsOfAcross);
  std::vector<plan::GemmPlan> legal;
  for (const auto& candidate : plan::gemm_candidates(p, {multiprocessors(), false, architecture()}))
    if (candidate.tile.name == tile.name) legal.push_back(candidate);
  require(!legal.empty(), "tile {}: got no plan for {} rows, expected one", tile.name, p.m);
  return legal;
}

/// Those that this build has.
std::vector<plan::GemmTile> made_tiles(DType dtype) {
  std::vector<plan::GemmTile> tiles;
  for (const plan::GemmTile& tile : plan::plans_of(architecture()).tiles)
    if (cuda::has_kernel({.tile = tile, .architecture = architecture()}, dtype))
      tiles.push_back(tile);
  return tiles;
}

/// The i-th case: tiles in turn, so that each is met; the rest drawn.
Case draw(std::mt19937_64& rng, int i, DType dtype, const Options& o) {
  Case c;
  static const std::array<std::vector<plan::GemmTile>, 2> made{made_tiles(DType::bf16),
                                                               made_tiles(DType::fp16)};
  const auto& tiles = made.at(dtype == DType::bf16 ? 0 : 1);
  require(!tiles.empty(), "tiles of {} in {}, got none in this build, expected some",
          name_of_architecture(architecture()), name_of(dtype));
  const auto asked = std::ranges::find(tiles, o.tile, &plan::GemmTile::name);
  require(o.tile.empty() || asked != tiles.end(),
          "--tile: got {}, expected a tile that this build has in {}", o.tile, name_of(dtype));
  const plan::GemmTile& tile =
      asked != tiles.end() ? *asked : tiles[static_cast<std::size_t>(i) % std::size(tiles)];
  const std::int64_t r = tile.rows();
  const std::int64_t w = tile.width;
  const bool swapped = tile.swapped;
  const std::int64_t most = o.small ? 4 : 1;
  c.problem.dtype = dtype;
  c.problem.m =
      swapped ? pick(rng, {1, 7, 8, w - 1, w, w + 1, 2 * w, 3}, kMostRows / most, 1)
              : pick(rng, {1, 2, 63, 64, 65, r - 1, r, r + 1, 2 * r, 997}, kMostRows / most, 1);
  c.problem.gated = plan::can_gate(tile) && rng() % 2 == 0;
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
  c.weights_wait = rng() % 2 == 0;
  c.exact = !c.problem.gated && rng() % 2 == 0;
  c.bias = !c.exact && rng() % 2 == 0;
  if (!c.exact && rng() % 2 == 0) c.activation = static_cast<Activation>(1 + rng() % 3);
  if (c.problem.gated) c.activation = Activation::swiglu;
  return c;
}

/// As a call of one rank has it.
Problem problem_of(const Case& c) {
  const auto& p = c.problem;
  Problem whole;
  whole.m = p.m;
  whole.n.assign(p.gated ? 2 : 1, p.out_n());
  whole.k = p.k;
  whole.dtype = p.dtype;
  whole.bias = c.bias;
  whole.activation = c.activation;
  return whole;
}

/// What is wrong; `drop`: with a reference without its first k-steps.
std::string run(const Case& c, std::uint64_t seed, Place& place, cuda::GemmWorkspace& workspace,
                bool drop, double& worst, cudaStream_t stream) {
  Operands operands(place, problem_of(c), 0, c.exact ? Fill::exact : Fill::normal);
  operands.fill_weights(seed);
  operands.fill(seed + 1);
  const auto& v = operands.views();
  const auto bias = [&](std::size_t i) { return c.bias ? v.biases[i].data : nullptr; };
  cuda::GemmTensors tensors{v.input.data, v.weights[0].data, bias(0), v.outs[0].data, c.activation};
  if (c.problem.gated) {
    tensors.up = v.weights[1].data;
    tensors.up_bias = bias(1);
  }
  tensors.weights_wait = c.weights_wait;
  const cuda::GemmCall call(c.plan, c.problem, tensors, workspace.scratch());
  call.launch(stream);
  workspace.look(stream);
  const auto skip_k = std::min<std::int64_t>(c.problem.k, 64);
  std::string trouble = !drop ? operands.check(&worst)
                        : judge(operands.judged(0), 0, c.exact, skip_k, stream).wrong > 0
                            ? "noticed"
                            : "";
  if (c.plan.split_tiles > 0 && workspace.failed()) trouble += "; a wait expired";
  return trouble;
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
  cuda::load_gemm_kernels(architecture());
  cuda::GemmWorkspace workspace(architecture());
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  gpu_test::DeviceArena arena(kMostBytes);
  const auto take = [&arena](std::size_t bytes) { return arena.take(bytes); };
  gpu_test::DevicePlace place(stream, take, take);
  std::mt19937_64 rng(o.seed);
  int bad = 0;
  gpu_test::JsonLines json(o.json, true);
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    if (std::find(o.dtypes.begin(), o.dtypes.end(), name_of(dtype)) == o.dtypes.end()) continue;
    int exact = 0, shared = 0, gated = 0, wrong = 0;
    double worst = 0;
    for (int i = 0; i < o.shapes; ++i) {
      const Case c = draw(rng, i, dtype, o);
      arena.clear();
      const std::string trouble = run(c, rng(), place, workspace, o.drop, worst, stream);
      exact += c.exact ? 1 : 0;
      shared += c.plan.split_tiles > 0 ? 1 : 0;
      gated += c.problem.gated ? 1 : 0;
      if (trouble.empty()) continue;
      if (++wrong <= 12 && !o.drop) fmt::print("WRONG {}: {}\n", text_of(c), trouble);
    }
    fmt::print(
        "{}: {} shapes, {} exact, {} with shared k-steps, {} gated, {} wrong, worst relative error "
        "{:.5f} (limit {:.5f})\n",
        name_of(dtype), o.shapes, exact, shared, gated, wrong, worst, 0.52 * unit_roundoff(dtype));
    // Without its first k-steps every result must be found wrong.
    bad += o.drop ? o.shapes - wrong : wrong;
    if (!o.drop && worst > 0.52 * unit_roundoff(dtype)) ++bad;
    json.write({{"schema", "tilelace.conformance/1"},
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
