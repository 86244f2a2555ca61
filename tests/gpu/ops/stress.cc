// SPDX-License-Identifier: Apache-2.0
#include "ops/stress.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "backend/cuda/base/cuda_check.h"
#include "gemm/data.h"
#include "plan/gpu/kernel_choice.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;

constexpr long kBlock = 8;         // calls of one problem and plan in a row, of kinds by themselves
constexpr std::size_t kSorts = 5;  // a problem and kind
constexpr std::size_t kDropped = 3;
constexpr std::uint64_t kWeightSeed = 64;  // inputs have smaller ones

std::size_t stress_bytes(std::int64_t rows, std::int64_t cols) {
  return std::max<std::size_t>(16, static_cast<std::size_t>(rows * cols) * 2);
}

/// Cuts rows into chunks of so many; of gemm_ar, blocks, with own tiles as early as they can be.
template <class Way>
void cut(Way& way, std::int64_t rows) {
  if constexpr (requires { way.block_rows; }) {
    way.block_rows = rows;
    way.lag = 1;
  } else if constexpr (requires { way.chunk_rows; }) {
    way.chunk_rows = rows;
  }
}

/// The fastest by prediction, also in small chunks, and others with the smallest, the largest and a
/// middle chunk; of an op without chunks the fastest of several shapes of tiles.
std::vector<CudaWay> some_of(const Problem& problem, std::vector<CudaWay> ways) {
  std::vector<CudaWay> some{ways.front()};
  const auto add = [&](const Problem& p, std::int64_t chunk_rows) {
    CudaWay other = some.front();
    plan::KernelWay way = other.plan.kernel->way;
    std::visit([&](auto& w) { cut(w, chunk_rows); }, way);
    other.plan = plan::plan_of(p, std::move(way));
    some.push_back(std::move(other));
  };
  std::stable_sort(ways.begin(), ways.end(), [](const CudaWay& x, const CudaWay& y) {
    return sort_of(x.plan) < sort_of(y.plan);
  });
  const Plan first = some.front().plan;
  if (first.op == Op::ag_gemm) {
    for (const std::size_t i : {std::size_t{0}, ways.size() - 1, ways.size() / 2})
      some.push_back(ways[i]);
    add(problem, std::max<std::int64_t>(1, first.chunk_rows / 4));
    return some;
  }
  if (first.path != Path::fused) {  // one chunk a shard; as many as there can be
    add(problem, kMostRows);
    add(problem, 1);
  } else if (first.op == Op::gemm_ar && first.transport == Transport::store) {
    // Every row of tiles a block, own tiles as early as they can be.
    add(problem, plan::gemm_of(first.kernel->way).tile.worker_rows());
  }
  std::set<std::string> sorts{sort_of(first)};
  for (const CudaWay& way : ways)
    if (sorts.insert(sort_of(way.plan)).second) some.push_back(way);
  std::stable_sort(some.begin(), some.end(), [](const CudaWay& x, const CudaWay& y) {
    return x.predicted_us < y.predicted_us;
  });
  some.resize(std::min(some.size(), kSorts));
  return some;
}

}  // namespace

std::vector<Problem> stress_problems(Op op, int ranks, DType dtype, bool small) {
  const std::int64_t most = small ? 8 : 1;
  Problem even;
  even.op = op;
  even.ranks = ranks;
  even.m = 2048 / most;
  even.n = {512 / most};
  even.k = 1024 / most;
  even.dtype = dtype;
  Problem ragged = even;
  ragged.m = 1 + 1008 / most;  // few enough for every kind of plan
  ragged.n = {small ? 88 : 328};
  ragged.residual = op != Op::ag_gemm;
  std::int64_t left = ragged.m;
  for (int r = 0; r < ranks && op != Op::gemm_ar; ++r) {
    const std::int64_t rows = r + 1 == ranks ? left : left * (r % 3) / 5;
    ragged.rows.push_back(rows);
    left -= rows;
  }
  Problem few = even;
  few.m = 21;
  few.n = {1024 / most};
  return {even, ragged, few};
}

WaysByKind all_kinds(const Problem& problem, const WayRange& range) {
  WaysByKind all;
  for (auto& [kind, ways] : ways_by_kind(problem, range))
    for (CudaWay& way : some_of(problem, ways))
      all[std::string(kAllKinds)].push_back(std::move(way));
  return all;
}

Stress::Stress(Rank& rank, const std::vector<Problem>& problems, std::vector<WaysByKind> kinds,
               double timeout_s, bool drop, const cuda::RankShare& share)
    : rank_(rank),
      timeout_s_(timeout_s),
      kinds_(std::move(kinds)),
      place_(
          rank.stream, [this](std::size_t bytes) { return make(bytes); },
          [this](std::size_t bytes) { return make(bytes); }),
      rng_(static_cast<std::uint64_t>(rank.rank) + 1) {
  check(cudaStreamCreateWithFlags(&checks_, cudaStreamNonBlocking), "a stream for checks");
  check(cudaEventCreate(&begin_), "an event");
  check(cudaEventCreate(&end_), "an event");
  totals_ = static_cast<StressTotals*>(make(sizeof(StressTotals)));
  std::size_t largest = 0;
  for (const Problem& p : problems) {
    largest = std::max(largest, stress_bytes(p.m, p.n.at(0)));
    loads_.push_back(load_for(p, drop));
  }
  largest = (largest + 255) / 256 * 256;
  reachable_ =
      std::make_unique<ReachableMemory>(*rank.group, rank.device, kOuts * largest, timeout_s);
  std::byte* at = reachable_->data();
  for (Out& o : outs_) {
    o.data = at;
    at += largest;
    test::poison(o.data, largest, rank_.stream);
    check(cudaEventCreateWithFlags(&o.ready, cudaEventDisableTiming), "an event");
    check(cudaEventCreateWithFlags(&o.checked, cudaEventDisableTiming), "an event");
  }
  check(cudaStreamSynchronize(rank_.stream), "operands");
  ops_ = std::make_unique<cuda::RankOps>(*rank_.group, rank_.device, problems, timeout_s_, share);
  stall_ = std::make_unique<StallWatch>(rank_);
}

Stress::~Stress() {
  watching_.reset();
  stall_.reset();
  ops_.reset();
  for (const Out& o : outs_) {
    if (o.ready != nullptr) cudaEventDestroy(o.ready);
    if (o.checked != nullptr) cudaEventDestroy(o.checked);
  }
  if (begin_ != nullptr) cudaEventDestroy(begin_);
  if (end_ != nullptr) cudaEventDestroy(end_);
  if (checks_ != nullptr) cudaStreamDestroy(checks_);
  for (void* p : all_) cudaFree(p);
}

void* Stress::make(std::size_t bytes) {
  void* p = nullptr;
  check(cudaMalloc(&p, bytes), "memory for operands");
  all_.push_back(p);
  return p;
}

/// Inputs of the own rank, and what the products of everyone's are.
Stress::Load Stress::load_for(const Problem& p, bool drop) {
  Load load{std::make_unique<test::Operands>(place_, p, rank_.rank, test::Fill::exact), {}, {}, {}};
  test::Operands& o = *load.operands;
  const std::size_t bytes = stress_bytes(o.shape().inputs, p.k);
  o.fill_weights(kWeightSeed);
  for (std::size_t i = 0; i < kInputs; ++i) {
    load.inputs[i] = make(bytes);
    load.expected[i] = make(stress_bytes(o.shape().results, p.n[0]));
    o.fill(i + 1);
    if (drop && i == kDropped && rank_.rank == rank_.ranks - 1) o.drop_input();
    check(cudaMemcpyAsync(load.inputs[i], o.views().input.data, bytes, cudaMemcpyDeviceToDevice,
                          rank_.stream),
          "an input");
    test::make_expected(o.judged(0), load.expected[i], rank_.stream);
  }
  return load;
}

void Stress::choose(const std::string& kind) {
  running_.clear();
  block_ = kind == kAllKinds ? 1 : kBlock;
  for (std::size_t i = 0; i < loads_.size(); ++i) {
    const auto ways = kinds_.at(i).find(kind);
    if (ways == kinds_[i].end()) continue;
    loads_[i].ways =
        kind == kAllKinds ? ways->second : some_of(loads_[i].operands->problem(), ways->second);
    running_.push_back(i);
  }
}

const Stress::Load& Stress::load_of(long call) const {
  const auto block = static_cast<std::size_t>(call / block_);
  return loads_[running_.at(block % running_.size())];
}

const Plan& Stress::plan_of(long call) const {
  const auto& ways = load_of(call).ways;
  return ways[static_cast<std::size_t>(call / block_) / running_.size() % ways.size()].plan;
}

std::string Stress::text_of(long call) const {
  return fmt::format("call {}: {}; {}{}", call, fmt::streamed(load_of(call).operands->problem()),
                     fmt::streamed(plan_of(call)), is_reachable(call) ? "" : ", out of reach");
}

/// Now and then the host is late, or the device busy.
void Stress::delay() {
  const auto one_in = [&](std::uint64_t n) { return rng_() % n == 0; };
  if (one_in(64)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  if (one_in(4)) std::this_thread::sleep_for(std::chrono::microseconds(rng_() % 200));
  if (one_in(4))
    check(enqueue_spin(static_cast<std::int64_t>(rng_() % 200'000), one_in(2) ? 1 : 132,
                       rank_.stream),
          "a delay");
}

void Stress::enqueue_burst(long first, long calls) {
  for (long c = first; c < first + calls; ++c) {
    const Out& out = outs_[static_cast<std::size_t>(c) % kOuts];
    if (out.used) check(cudaStreamWaitEvent(rank_.stream, out.checked), "an event");
  }
  for (long c = first; c < first + calls; ++c) launch(c);
  for (long c = first; c < first + calls; ++c) watch(c);
}

void Stress::launch(long call) {
  const Load& load = load_of(call);
  const auto input = static_cast<std::size_t>(call) % kInputs;
  const Out& out = outs_[static_cast<std::size_t>(call) % kOuts];
  const auto& views = load.operands->views();
  TensorView result = views.outs.front();
  result.data = out.data;
  cuda::CallTensors tensors;
  tensors.input = views.input;
  tensors.input.data = load.inputs[input];
  tensors.weights = {&views.weights.front(), 1};
  tensors.out = {&result, 1};
  tensors.residual = views.residual;
  tensors.stream = rank_.stream;
  if (is_reachable(call)) tensors.reachable = reachable_->at(out.data);
  ops_->run(load.operands->problem(), plan_of(call), tensors);
}

void Stress::watch(long call) {
  const Load& load = load_of(call);
  const auto input = static_cast<std::size_t>(call) % kInputs;
  Out& out = outs_[static_cast<std::size_t>(call) % kOuts];
  check(cudaEventRecord(out.ready, rank_.stream), "an event");
  check(cudaStreamWaitEvent(checks_, out.ready), "an event");
  StressCheck c{out.data,
                load.expected[input],
                load.operands->shape().results,
                load.operands->problem().n[0],
                load.operands->problem().dtype,
                rank_.ranks};
  // From the first row of the result on.
  const auto borders = borders_of(load.operands->problem());
  std::transform(borders.begin(), borders.end(), c.borders,
                 [&](std::int64_t row) { return row - load.operands->shape().result_row; });
  c.call = call;
  c.input = static_cast<int>(input);
  c.totals = totals_;
  check(enqueue_check(c, checks_), "a check");
  check(cudaEventRecord(out.checked, checks_), "an event");
  out.used = true;
}

/// What comes next in the rank's stream comes after all checks.
void Stress::join() {
  for (Out& o : outs_) {
    if (o.used) check(cudaStreamWaitEvent(rank_.stream, o.checked), "an event");
    o.used = false;
  }
}

std::string Stress::text_of(const StressTotals& t, long calls) const {
  if (t.calls != static_cast<unsigned long long>(calls))
    return fmt::format("rank {}: got {} checks, expected {}", rank_.rank, t.calls, calls);
  if (t.wrong == 0) return {};
  const Load& load = load_of(static_cast<long>(t.call));
  return fmt::format(
      "rank {}: {} of {} calls wrong, {} elements (in rows of rank 0, 1, ...: {}), the first in "
      "{} (input {}) row {} column {}: got {}, expected {}",
      rank_.rank, t.wrong_calls, calls, t.wrong,
      fmt::join(t.by_owner, t.by_owner + rank_.ranks, " "), text_of(static_cast<long>(t.call)),
      t.input, load.operands->shape().result_row + t.row, t.col, t.got, t.expected);
}

}  // namespace tilelace::gpu_test
