// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/gather/ag_gemm_calls.h"

#include <algorithm>
#include <climits>
#include <optional>

#include "backend/cuda/base/capture_of.h"
#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/gather/gather_call.h"
#include "backend/cuda/gather/gather_rows.h"
#include "backend/cuda/gemm/gemm_launch.h"
#include "backend/cuda/kernels/ops/ag_gemm.h"
#include "core/env.h"
#include "plan/base/problem.h"
#include "plan/base/schedules.h"
#include "plan/ways/gather_exchange.h"
#include "schedule/make_gather_order.h"
#include "tilelace/transport_table.h"

namespace tilelace::cuda {
namespace {

using schedule::Index;
using Call = GatherCall;

}  // namespace

struct AgGemmCalls::Impl {
  RankCalls& calls;
  CopyEngine engine;

  std::unique_ptr<NcclRows> nccl;

  Impl(RankCalls& shared, bool with_nccl) : calls(shared), engine(shared.device(), shared.next(0)) {
    if (with_nccl)
      nccl = std::make_unique<NcclRows>(calls.group(), calls.device(), calls.control(),
                                        plan::kNcclMultiprocessors, calls.control().timeout_s());
  }
};

namespace {

Call make_call(const OpCall& op, const plan::AgGemmWay& way, const RankCalls& calls) {
  Call c{op.problem, way, op.tensors, plan::borders_of(op.problem), {}, 0, op.hash};
  c.plan.gemm = calls.fit(way.gemm, way.left_free());
  c.schedule = plan::gather_schedule(op.problem, op.plan, calls.group().rank(), c.borders);
  c.schedule.deliver = false;
  if (!c.exchanged()) return c;
  c.exchange = plan::gathered_rows(op.problem, calls.group().rank());
  // Of a call that only gathers, plans need not say how.
  const auto lines = way.path == Path::unfused ? std::optional(way.lines) : std::nullopt;
  c.exchange_plan = plan::gathering_plan(lines, c.exchange,
                                         {.workers = calls.fit_ctas(calls.multiprocessors()),
                                          .architecture = way.gemm.architecture,
                                          .shared = calls.shares_device()});
  // Ranks must agree on the exchange, too.
  c.exchange.meaning = op.hash;
  c.hash = plan::collective_hash(c.exchange, c.exchange_plan);
  return c;
}

void require_call(const Call& c, const RankCalls& calls) {
  const Problem& p = c.problem;
  const auto needed = static_cast<std::size_t>(p.m * c.row_bytes());
  require(needed <= calls.data_bytes(),
          "ag_gemm: m {} k {}: got {} bytes to gather, expected at most the prepared {}: call "
          "prepare with a larger m",
          p.m, p.k, needed, calls.data_bytes());
  require(c.plan.chunk_rows > 0 && c.schedule.max_chunks() <= plan::kMaxChunks &&
              static_cast<std::size_t>(c.schedule.num_flags()) <= calls.flags(),
          "ag_gemm: chunks of {} rows: got {} chunks per shard, expected 1 to {}",
          c.plan.chunk_rows, c.schedule.max_chunks(), plan::kMaxChunks);
  require(!c.plan.whole || row_of(c.plan.transport).by_workers(),
          "ag_gemm: transport: got {} for tiles that straddle shards, expected store",
          name_of(c.plan.transport));
  const plan::GemmTile& tile = c.plan.gemm.tile;
  require(c.copied() || c.exchanged() || plan::can_push(tile.blocks, tile.width),
          "ag_gemm: tile {}: got transport {} with path fused, but its warps have no registers to "
          "send rows, expected path unfused or transport push",
          tile.name, name_of(c.plan.transport));
  require(c.plan.route == RouteKind::mesh ||
              (c.plan.route == RouteKind::ring && row_of(c.plan.transport).pushes()),
          "ag_gemm: got route {} with transport {}, expected mesh, or ring with push",
          name_of(c.plan.route), name_of(c.plan.transport));
}

/// Captured sends and receives whose buffers NCCL registers in the graph bring old rows, or none.
void require_captured_exchanges(cudaStream_t stream) {
  const auto set = env::launch_variable("NCCL_GRAPH_REGISTER");
  require(set == "0" || capture_of(stream) == 0,
          "ag_gemm: capture of transport nccl: NCCL_GRAPH_REGISTER: got {}, expected 0: set it "
          "before the process starts (docs/decisions/0012)",
          set.value_or("unset"));
}

/// Beside copies that need multiprocessors: a wait of one warp fits beside half a multiprocessor's
/// CTAs, NCCL's CTAs do not. On a share the kernels of others may keep a product half placed, and
/// only the priority of their stream brings the copies' kernels past it, which a graph may ignore.
void require_places(const Call& c, const RankCalls& calls, cudaStream_t stream) {
  const plan::GemmTile& tile = c.plan.gemm.tile;
  const int left = c.plan.left_free();
  const int ctas = c.plan.gemm.workers * tile.cluster();
  const auto taken = static_cast<int>(schedule::ceil_div(ctas, c.plan.relays() ? tile.per_sm : 1));
  require(
      left == 0 || taken + left <= calls.multiprocessors(),
      "ag_gemm: {} CTAs leave no room for the copies' kernels, which need {} of {} multiprocessors"
      ": use route mesh with transport push or store",
      ctas, left, calls.multiprocessors());
  require(
      left == 0 || plan::fits_beside_copies(tile),
      "ag_gemm: tile {}: got clusters of {} CTAs, expected at most 2 with transport {} over the "
      "{}, whose kernels need multiprocessors, too",
      tile.name, tile.cluster(), name_of(c.plan.transport), name_of(c.plan.route));
  require(left == 0 || c.behind_rows() || !calls.shares_device() || capture_of(stream) == 0,
          "ag_gemm: path {} with transport {} over the {} cannot be captured with max_workers: use "
          "path unfused, or transport push or store over the mesh",
          name_of(c.plan.path), name_of(c.plan.transport), name_of(c.plan.route));
}

}  // namespace

AgGemmCalls::AgGemmCalls(RankCalls& calls, bool nccl)
    : impl_(std::make_unique<Impl>(calls, nccl)) {}

AgGemmCalls::~AgGemmCalls() = default;

namespace {

/// One kernel: a weight's product, or gate's and up's; of path medium on one shard, else on all
/// rows.
struct Launch {
  std::size_t product = 0;
  int section = -1;
  bool rows_here = false;            ///< a kernel before it waited for them
  bool first = false, last = false;  ///< of the product's kernels
};

std::vector<Launch> launches_of(const Call& c) {
  std::vector<Launch> all;
  const std::size_t products =
      plan::is_merged(c.problem, c.plan.gemm.tile) ? 1 : c.problem.outputs();
  const std::size_t widest = products > 1 ? plan::widest_product(c.problem) : 0;
  const auto add = [&](int section) {
    all.push_back({widest, section});
    for (std::size_t i = 0; i < products; ++i)
      if (i != widest) all.push_back({i, section, true});
  };
  if (c.plan.path != Path::medium) add(-1);
  for (int s = 0; s < c.problem.ranks && c.plan.path == Path::medium; ++s)
    if (c.schedule.split.shard(c.schedule.route.gather_order(c.schedule.rank, s)).size() > 0)
      add(s);
  all.front().first = all.back().last = true;
  return all;
}

/// Behind a product that waited for all rows, or a wait for them, all shards are walked together:
/// the weight is read once.
schedule::GatherOrder order_of(const Call& c, const Launch& launch, const schedule::GemmOrder& walk,
                               const plan::GemmTile& tile) {
  const bool here = launch.section < 0 && (launch.rows_here || c.behind_rows());
  const bool joined = here || !c.plan.joins.empty();
  schedule::GatherJoins joins;
  if (!here)
    for (std::size_t i = 0; i < std::min(c.plan.joins.size(), std::size(joins.after) - 1); ++i)
      joins.after[i + 1] = c.plan.joins[i];
  const auto all = schedule::make_gather_order(
      c.schedule, c.plan.whole ? walk : plan::over_tokens(walk, tile), tile.worker_tokens(),
      c.plan.whole, joined ? 0 : c.plan.apart, joins);
  return launch.section < 0 ? all : plan::shard_order(all, launch.section);
}

GemmTensors tensors_of(const RankCalls& calls, const Call& c, const Launch& launch, bool gated) {
  const std::size_t i = launch.product;
  const CallTensors& t = c.tensors;
  GemmTensors one;
  one.a = calls.memory().local() + calls.data_at(c.slot);
  one.weight = t.weights[i].data;
  one.bias = c.bias(i);
  one.out = t.out[i].data;
  one.activation = c.problem.activation;
  one.weights_wait = t.weights_wait;
  if (gated) {
    one.up = t.weights[1].data;
    one.up_bias = c.bias(1);
  }
  return one;
}

/// Of the kernel's weights, which are the call's from number `product` on. The first one's map is
/// among the operands.
void fill_weights(MoreWeights& weights, const Call& c, const GemmKernel& kernel,
                  std::size_t product, std::size_t count) {
  const Problem& p = c.problem;
  const int slice = kernel.tile.swapped ? kernel.row_slice : kernel.col_slice;
  std::ranges::fill(weights.first, INT_MAX);
  Index tiles = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Index n = p.n[product + i];
    const TensorMapSource rows{c.tensors.weights[product + i].data, n, p.k};
    if (i > 0) weights.map[i - 1] = rows_map(rows, p.dtype, slice);
    weights.bias[i] = c.bias(product + i);
    weights.n[i] = static_cast<int>(n);
    weights.first[i] = static_cast<int>(tiles);
    tiles += schedule::ceil_div(n, kernel.tile.worker_columns());
  }
}

/// Results of one weight, from map `first` on: every section's have a map of their own.
void fill_results(AgGemmParams& params, int first, const GemmKernel& kernel,
                  const plan::GemmProblem& gemm, void* results) {
  const schedule::GatherOrder& order = params.work.order;
  for (int s = 0; s < order.count; ++s) {
    const Index rows = order.end(s) - order.begin(s);
    if (rows == 0) continue;
    auto* out = static_cast<std::byte*>(results) +
                static_cast<std::size_t>(order.begin(s) * gemm.out_n()) * size_of(gemm.dtype);
    fill_outputs(params.out[first + s], params.out_remainder[first + s], kernel,
                 {out, rows, gemm.out_n()}, gemm.dtype, gemm.gated);
  }
}

/// Of each section the slice of tokens that is there in part.
void fill_tails(AgGemmParams& params, const RankCalls& calls, const Call& c,
                const GemmKernel& kernel) {
  const Problem& p = c.problem;
  const std::byte* const staged = calls.memory().local() + params.staged;
  const schedule::GatherOrder& order = params.work.order;
  for (int s = 0; s < (order.whole ? 1 : order.count); ++s) {
    const bool own = s == 0 && !order.whole;
    const Index rows = order.end(s) - order.begin(s);
    // Coordinates are those of the map of all.
    const TensorMapSource tokens =
        own ? TensorMapSource{c.tensors.input.data, rows, p.k} : TensorMapSource{staged, p.m, p.k};
    params.tail[s] = tail_map(kernel, tokens, rows, p.dtype);
  }
}

/// Where nothing is gated, its base is what the kernel takes.
AgGemmGatedParams params_of(const RankCalls& calls, const Call& c, const GemmKernel& kernel,
                            const Launch& launch) {
  const Problem& p = c.problem;
  const plan::GemmProblem gemm = plan::product_of(p, launch.product, p.m);
  const GemmTensors tensors = tensors_of(calls, c, launch, gemm.gated);
  AgGemmGatedParams params{};
  fill_operands(params, kernel, gemm, tensors, calls.scratch());
  if (gemm.gated) fill_up(params.up, kernel, gemm, tensors);
  const bool merged = plan::is_merged(p, c.plan.gemm.tile);
  const schedule::GemmWork work =
      plan::work_of(c.plan.gemm, merged ? plan::merged_product(p, kernel.tile, p.m) : gemm);
  const auto walk = order_of(c, launch, work.order, kernel.tile);
  // The plan was made for the first weight and the largest shard; others may have fewer tiles.
  params.work = schedule::make_gemm_work(walk, work.workers, work.k_steps,
                                         std::min(work.split_tiles, walk.tiles()));
  const schedule::GatherOrder& order = params.work.order;
  const std::size_t weights = merged ? p.n.size() : 1;
  const std::size_t first = launch.product;
  fill_weights(params.weights, c, kernel, first, weights);
  for (std::size_t i = 0; i < weights; ++i)
    fill_results(params, static_cast<int>(i) * order.count, kernel,
                 plan::product_of(p, first + i, p.m), c.tensors.out[first + i].data);
  const Index own = order.shard[0].end - order.shard[0].begin;
  const int slice = kernel.tile.swapped ? kernel.col_slice : kernel.row_slice;
  params.own = own > 0 ? rows_map({c.tensors.input.data, own, p.k}, p.dtype, slice) : params.rows;
  params.call = calls.params(c.slot, c.hash, c.problem.op);
  params.call.first = launch.first && !c.behind_rows();
  params.call.last = launch.last;
  params.rows_here = launch.rows_here || c.exchanged();
  if (launch.first && !c.copied() && !c.exchanged())
    params.push = schedule::make_push_order(c.schedule, c.plan.whole);
  params.input = static_cast<const std::byte*>(c.tensors.input.data);
  params.staged = calls.data_at(c.slot);
  params.row_bytes = c.row_bytes();
  fill_tails(params, calls, c, kernel);
  return params;
}

void enqueue_product(const AgGemmCalls::Impl& impl, const Call& c, cudaStream_t stream) {
  const GemmKernel& kernel = kernel_of(c.plan.gemm, c.problem.dtype);
  const bool gated = c.problem.activation == Activation::swiglu;
  const void* const function = kernel.of(gated ? GemmUse::gated_ag_gemm : GemmUse::ag_gemm);
  require(function != nullptr, "ag_gemm: tile {} has no kernel of ag_gemm{}", kernel.tile.name,
          gated ? " for gate and up" : "");
  for (const Launch& launch : launches_of(c)) {
    AgGemmGatedParams params = params_of(impl.calls, c, kernel, launch);
    const GemmGrid grid = fill_grid(params, params.work, kernel, c.plan.gemm);
    // One that begins under the kernel before it would take the place that is left.
    const bool early = c.plan.gemm.early_weights && (launch.first || c.plan.left_free() == 0);
    launch_gemm(kernel, function, &params, grid, stream, early);
  }
}

void enqueue_await_rows(const RankCalls& calls, const Call& c, cudaStream_t stream) {
  AwaitRows await;
  await.call = calls.params(c.slot, c.hash, c.problem.op);
  await.call.last = c.alone();
  await.max_chunks = static_cast<int>(c.schedule.max_chunks());
  for (int r = 0; r < c.problem.ranks; ++r)
    await.chunks[r] = static_cast<int>(c.schedule.chunks(r).count());
  check(enqueue_await(await, stream), "ag_gemm: the wait for all rows");
}

/// Own rows from where they are, the others from the slot.
void enqueue_gathered(const RankCalls& calls, const Call& c, cudaStream_t stream) {
  const Index bytes = c.row_bytes();
  const auto own = c.schedule.split.shard(c.schedule.rank);
  const GatheredCopy copy{static_cast<std::byte*>(c.tensors.gathered.data),
                          calls.memory().local() + calls.data_at(c.slot),
                          static_cast<const std::byte*>(c.tensors.input.data),
                          own.begin * bytes,
                          own.end * bytes,
                          c.problem.m * bytes,
                          calls.params(c.slot, c.hash, c.problem.op).wait.stop};
  check(enqueue_copy(copy, stream), "ag_gemm: the gathered rows");
}

}  // namespace

void AgGemmCalls::run(const OpCall& op, const plan::AgGemmWay& plan) {
  Impl& impl = *impl_;
  const cudaStream_t stream = op.stream();
  Call c = make_call(op, plan, impl.calls);
  require_call(c, impl.calls);
  const bool by_nccl = row_of(plan.transport).needs_nccl();
  require(!by_nccl || impl.nccl != nullptr,
          "ag_gemm: transport nccl was not prepared: call prepare with the plan's options");
  if (by_nccl) require_captured_exchanges(stream);
  if (!c.alone()) require_places(c, impl.calls, stream);
  c.slot = impl.calls.begin_call("ag_gemm", c.problem.op, stream);
  enqueue_sends(impl.calls, impl.engine, by_nccl ? impl.nccl.get() : nullptr, c, stream);
  if (c.awaits()) enqueue_await_rows(impl.calls, c, stream);
  if (!c.alone()) enqueue_product(impl, c, stream);
  if (op.tensors.gathered) enqueue_gathered(impl.calls, c, stream);
  if (c.copied()) impl.engine.join(stream);
}

}  // namespace tilelace::cuda
