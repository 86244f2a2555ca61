// SPDX-License-Identifier: Apache-2.0
#include "operands.h"

#include <algorithm>
#include <cstring>

#include "core/half.h"
#include "gpu_times.h"
#include "model/random.h"
#include "op/run_plan.h"
#include "tilelace/op_table.h"

namespace tilelace::cli {
namespace {

constexpr std::uint64_t kInputSeed = 7;
constexpr unsigned char kPoison = 0xff;
constexpr std::size_t kBeyondL2 = 160U << 20;

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

std::uint64_t place_hash(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return mix(mix(mix(a + 0x9e3779b97f4a7c15ULL) + b) + c);
}

std::vector<TensorView> views_of(const std::vector<model::Matrix>& matrices) {
  std::vector<TensorView> views;
  for (const auto& m : matrices) views.push_back(m.view);
  return views;
}

/// Of all parts together so many as the type's integers are exact: one by its roundoff.
std::int64_t most_terms(const model::LayerGemm& gemm, DType dtype) {
  return std::min<std::int64_t>(kMostTerms,
                                static_cast<std::int64_t>(1 / unit_roundoff(dtype)) / gemm.tp);
}

std::size_t bytes_of(const TensorView& t) {
  return static_cast<std::size_t>(t.rows * t.stride) * size_of(t.dtype);
}

}  // namespace

model::Slice row_shard(std::int64_t m, int ranks, int rank) {
  const auto begin = [&](std::int64_t r) { return r * (m / ranks) + std::min(r, m % ranks); };
  return {begin(rank), begin(rank + 1)};
}

Turns::Turns(std::size_t bytes) : pitch((bytes + 4095) / 4096 * 4096) {
  const std::size_t enough = (kBeyondL2 + pitch) / std::max<std::size_t>(pitch, 1);
  count = static_cast<int>(std::clamp<std::size_t>(enough, 1, kGraphCalls));
}

RankWeights model_weights(const Workload& work, const Job& job, int rank) {
  const model::LayerSource from{work.config, work.source, job.layer};
  auto shard = model::shard(from, job.gemm, rank, work.dtype);
  RankWeights w{std::move(shard.weights), std::move(shard.biases), {}, {}, {}, {}};
  w.weight_views = views_of(w.weights);
  w.bias_views = views_of(w.biases);
  return w;
}

void move_to_gpu(RankWeights& w, const GpuPlace& place) {
  for (auto* views : {&w.weight_views, &w.bias_views}) {
    for (TensorView& view : *views) {
      const Turns turns(bytes_of(view));
      DeviceBuffer& copy = w.copies.emplace_back(*place.member, turns.bytes());
      for (int i = 0; i < turns.count; ++i) copy.upload(view.data, bytes_of(view), turns.at(i));
      view.data = copy.data();
    }
  }
  for (int i = 0; i < kGraphCalls; ++i) {
    w.turns.push_back(w.weight_views);
    for (TensorView& view : w.turns.back())
      view.data = static_cast<std::byte*>(view.data) + Turns(bytes_of(view)).at(i);
  }
}

int integer_weight(std::size_t index, std::int64_t row, std::int64_t col) {
  const std::uint64_t hash =
      place_hash(index + 1, static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(col));
  return static_cast<int>(((hash >> 32) * 3) >> 32) - 1;
}

RankWeights integer_weights(const Workload& work, const Job& job, int rank) {
  RankWeights w;
  const model::Slice cols = model::k_slice(job.gemm, rank);
  for (std::size_t i = 0; i < job.gemm.n.size(); ++i) {
    const model::Slice rows = model::row_slice(job.gemm, i, rank);
    auto& matrix = w.weights.emplace_back(model::make_matrix(work.dtype, rows.size(), cols.size()));
    const TensorView& v = matrix.view;
    for (std::int64_t r = 0; r < v.rows; ++r) {
      for (std::int64_t c = 0; c < v.cols; ++c) {
        store_element(v.data, v.dtype, r * v.stride + c,
                      static_cast<float>(integer_weight(i, rows.begin + r, cols.begin + c)));
      }
    }
  }
  w.weight_views = views_of(w.weights);
  return w;
}

int integer_parts(const model::LayerGemm& gemm) { return row_of(gemm.op).gathers ? 1 : gemm.tp; }

std::vector<Term> integer_row(const model::LayerGemm& gemm, DType dtype, std::int64_t row,
                              int part) {
  const std::int64_t width = gemm.full_k / integer_parts(gemm);
  std::vector<Term> terms;
  for (std::int64_t t = 0; t < std::min(most_terms(gemm, dtype), width); ++t) {
    const std::uint64_t hash =
        place_hash(static_cast<std::uint64_t>(part), static_cast<std::uint64_t>(row),
                   static_cast<std::uint64_t>(t));
    const auto col = static_cast<std::int64_t>((hash >> 1) % static_cast<std::uint64_t>(width));
    const auto same = [&](const Term& known) { return known.col == part * width + col; };
    if (std::none_of(terms.begin(), terms.end(), same)) {
      terms.push_back({part * width + col, (hash & 1) != 0 ? 1 : -1});
    }
  }
  return terms;
}

std::vector<Preparation> preparations(const Workload& work, const Job& job,
                                      const RankWeights& weights, const Machine& machine,
                                      bool plain, const std::vector<std::int64_t>& sizes) {
  Problem p = problem_of(job.gemm, *std::max_element(sizes.begin(), sizes.end()), work.dtype);
  if (plain) p.bias = false, p.activation = Activation::none;
  std::vector<Preparation> list;
  for (const PlanOptions& options : ways_of(work, job)) {
    list.push_back({p, weights.weight_views, options});
    if (row_of(p.op).sums) continue;
    list.push_back(list.back());
    list.back().problem.return_gathered = true;
  }
  list.push_back({p, weights.weight_views, {}});  // for the parts alone
  for (const auto& turn : weights.turns) list.push_back({p, turn, {}});
  if (plain) return list;
  for (const std::int64_t m : sizes) {
    p.m = m;
    std::vector<PlanOptions> rooms;
    for (const auto& way : candidates_of(work, job, m, machine)) {
      PlanOptions room;
      room.path = way.plan.path, room.route = way.plan.route, room.transport = way.plan.transport;
      if (std::find(rooms.begin(), rooms.end(), room) != rooms.end()) continue;
      rooms.push_back(room);
      list.push_back({p, weights.weight_views, room});
    }
  }
  return list;
}

GuardedMatrix::GuardedMatrix(DType dtype, std::int64_t rows, std::int64_t cols,
                             const GpuPlace* place, bool reachable)
    : memory_(model::make_matrix(dtype, rows + 1, cols)), view_(memory_.view) {
  view_.rows = rows;
  if (place == nullptr) return;
  turns_ = Turns(bytes());
  if (reachable)
    reachable_.emplace(*place->member, turns_.bytes());
  else
    copy_.emplace(*place->member, turns_.bytes());
  device_ = static_cast<std::byte*>(reachable ? reachable_->local() : copy_->data());
}

TensorView GuardedMatrix::call_view(int i) const {
  TensorView view = view_;
  if (device_ != nullptr) view.data = device_ + turns_.at(i);
  return view;
}

std::size_t GuardedMatrix::bytes() const { return bytes_of(memory_.view); }

void GuardedMatrix::fetch() {
  if (copy_) copy_->download(memory_.view.data, bytes());
  if (reachable_) copy_bytes(memory_.view.data, device_, bytes());
}

void GuardedMatrix::poison() {
  std::memset(memory_.view.data, kPoison, bytes());
  if (copy_) copy_->upload(memory_.view.data, bytes());
  if (reachable_) copy_bytes(device_, memory_.view.data, bytes());
}

bool GuardedMatrix::intact() const {
  const TensorView& all = memory_.view;
  const std::size_t width = size_of(all.dtype);
  for (std::int64_t r = 0; r < all.rows; ++r) {
    const std::int64_t first = r < view_.rows ? all.cols : 0;
    const auto* row = static_cast<const unsigned char*>(all.data) +
                      static_cast<std::size_t>(r * all.stride) * width;
    for (std::size_t b = static_cast<std::size_t>(first) * width;
         b < static_cast<std::size_t>(all.stride) * width; ++b) {
      if (row[b] != kPoison) return false;
    }
  }
  return true;
}

CallTensors::CallTensors(const Workload& work, const Job& job, int rank, std::int64_t m,
                         const GpuPlace* place)
    : gemm_(job.gemm),
      m_(m),
      rows_(row_of(job.gemm.op).gathers ? row_shard(m, work.ranks, rank) : model::Slice{0, m}),
      cols_(model::k_slice(job.gemm, rank)),
      out_rows_(row_of(job.gemm.op).scatters() ? row_shard(m, work.ranks, rank)
                                               : model::Slice{0, m}),
      key_(model::random_key(kInputSeed, "input")),
      place_(place),
      input_(model::make_matrix(work.dtype, rows_.size(), cols_.size())),
      call_input_(input_.view),
      gathered_(work.dtype, gathers() ? m : 0, gathers() ? job.gemm.k : 0, place),
      partial_(work.dtype, gathers() ? 0 : m, gathers() ? 0 : job.gemm.n[0], place) {
  for (const std::int64_t n : job.gemm.n)
    out_.emplace_back(work.dtype, out_rows_.size(), n, place, row_of(job.gemm.op).shares);
  turn(0);
}

void CallTensors::turn(int i) {
  turn_ = i;
  out_views_.clear();
  for (const auto& o : out_) out_views_.push_back(o.call_view(i));
  if (input_copy_)
    call_input_.data = static_cast<std::byte*>(input_copy_->data()) + input_turns_.at(i);
}

void CallTensors::send_input() {
  if (place_ == nullptr) return;
  const std::size_t bytes = bytes_of(input_.view);
  if (!input_copy_) {
    input_turns_ = Turns(bytes);
    input_copy_.emplace(*place_->member, input_turns_.bytes());
  }
  for (int i = 0; i < input_turns_.count; ++i)
    input_copy_->upload(input_.view.data, bytes, input_turns_.at(i));
  turn(0);
}

void CallTensors::settle() {
  if (place_ == nullptr) return;
  place_->member->synchronize(place_->stream);
  for (auto& o : out_) o.fetch();
  gathered_.fetch();
}

void CallTensors::fill_random() {
  model::fill_random(input_.view, key_, rows_.begin, cols_.begin, 1.0F);
  send_input();
}

void CallTensors::random_row(std::int64_t row, const TensorView& to) const {
  model::fill_random(to, key_, row, 0, 1.0F);
}

void CallTensors::fill_integers() {
  const TensorView& v = input_.view;
  std::memset(v.data, 0, bytes_of(v));
  for (std::int64_t r = 0; r < v.rows; ++r) {
    for (int part = 0; part < integer_parts(gemm_); ++part) {
      for (const Term& t : integer_row(gemm_, v.dtype, rows_.begin + r, part)) {
        if (t.col < cols_.begin || t.col >= cols_.end) continue;
        store_element(v.data, v.dtype, r * v.stride + t.col - cols_.begin,
                      static_cast<float>(t.sign));
      }
    }
  }
  send_input();
}

void CallTensors::poison() {
  for (auto& o : out_) o.poison();
  gathered_.poison();
  partial_.poison();
}

bool CallTensors::intact() const {
  const auto whole = [](const GuardedMatrix& m) { return m.intact(); };
  return std::all_of(out_.begin(), out_.end(), whole) && gathered_.intact();
}

std::size_t CallTensors::outputs_of(bool plain) const {
  return !plain && gemm_.activation == Activation::swiglu ? 1 : out_.size();
}

CallArgs CallTensors::args_of(const RankWeights& w, bool plain, bool gathered) const {
  CallArgs args{problem_of(gemm_, m_, input_.view.dtype), {call_input_}};
  Problem& p = args.problem;
  Operands& o = args.operands;
  o.weights = w.turns.empty() ? w.weight_views : w.turns[static_cast<std::size_t>(turn_)];
  if (!plain) o.bias = w.bias_views;
  p.bias = !o.bias.empty();
  if (plain) p.activation = Activation::none;
  o.out = std::span(out_views_).first(outputs_of(plain));
  p.return_gathered = gathered;
  if (gathered) o.gathered = gathered_.call_view(turn_);
  o.stream = stream();
  return args;
}

void CallTensors::call(Communicator& c, const RankWeights& w, const PlanOptions& options,
                       bool plain, bool gathered) {
  tilelace::call(c, args_of(w, plain, gathered), options);
}

void CallTensors::call(Communicator& c, const RankWeights& w, const Plan& plan) {
  op::run_plan(c, args_of(w, false, false), plan);
}

void CallTensors::call_gemm(Communicator& c, const RankWeights& w) {
  CallArgs args = args_of(w, false, false);
  const TensorView partial = partial_.call_view(turn_);
  if (gathers())
    args.operands.input = gathered_.call_view(turn_);
  else
    args.operands.out = {&partial, 1};
  gemm_only(c, args);
}

void CallTensors::call_collective(Communicator& c) {
  CallArgs args = args_of({}, true, gathers());
  if (!gathers()) args.operands.input = partial_.call_view(turn_);
  collective_only(c, args);
}

}  // namespace tilelace::cli
