// SPDX-License-Identifier: Apache-2.0
#include "bench.h"

#include <algorithm>

namespace tilelace::gpu_test {
namespace {

using cuda::NcclBuffer;

double guess_collective_us(const Row& row) { return 10 + row.wire_bytes() / 350e3; }

/// As of all other ways, the fastest of those that were timed with care is "fused", whatever short
/// looks had chosen. `choices`: of the figures from `first` on.
void name_fused(Figures& f, std::size_t first, const std::vector<FusedChoice>& choices) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < choices.size(); ++i)
    if (f.all[first + i].us < f.all[first + best].us) best = i;
  f.all[first].name = choices.front().role;
  f.all[first + best].name = "fused";
  f.transport = name_of(transport_of(choices[best].plan));
  f.path = path_of(choices[best].plan);
}

}  // namespace

const Figure* Figures::named(std::string_view name) const {
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const Figure& f) { return f.name == name; });
  return at == all.end() ? nullptr : &*at;
}

const Figure* Figures::fastest(Method method) const {
  const Figure* best = nullptr;
  for (const Figure& f : all)
    if (f.method == method && (best == nullptr || f.us < best->us)) best = &f;
  return best;
}

RankBench::RankBench(Rank& rank, cuda::NcclGroup& nccl, const std::vector<Row>& rows,
                     const BenchOptions& options, Board& board)
    : rank_(rank),
      nccl_(nccl),
      options_(options),
      operands_(rank, nccl, rows, options.buffers),
      timer_(rank, nccl),
      verifier_(rank, nccl, timer_, operands_, board),
      gemms_(rank, timer_, operands_, options.gemms) {
  if (options.beside) beside_ = std::make_unique<Beside>(rank, rows);
  if (options.medium && std::any_of(rows.begin(), rows.end(), Medium::knows))
    medium_ = std::make_unique<Medium>(rank, rows);
  if (options.fuse) fused_ = std::make_unique<Fused>(rank, timer_, operands_, rows, options.fused);
}

bool RankBench::has_windows() const {
  const auto& kinds = operands_.kinds();
  return std::find(kinds.begin(), kinds.end(), NcclBuffer::window) != kinds.end();
}

void RankBench::collective(const Row& row, const Call& call) {
  const std::size_t shard = row.shard_elements();
  const DType dtype = row.gemm.dtype;
  switch (row.op) {
    case Op::ag_gemm:
      nccl_.all_gather(operands_.own_rows(row, call), call.moved, shard, dtype, rank_.stream);
      break;
    case Op::gemm_rs:
      nccl_.reduce_scatter(call.moved, call.result, shard, dtype, rank_.stream);
      break;
    case Op::gemm_ar:
      nccl_.all_reduce(call.moved, call.result, shard * static_cast<std::size_t>(row.ranks), dtype,
                       rank_.stream);
      break;
  }
}

void RankBench::add(std::vector<Variant>& variants, std::string name, Method method,
                    NcclBuffer buffer, double guess_us, std::function<void(int)> launch) {
  Variant v;
  v.name = std::move(name);
  v.method = method;
  v.buffer = buffer;
  v.launch = std::move(launch);
  if (method == Method::medium) v.finish = [this] { medium_->finish(); };
  timer_.prepare(v, guess_us);
  variants.push_back(std::move(v));
}

void RankBench::add_products(const Row& row, std::vector<Variant>& variants) {
  const BestBlas& blas = gemms_.blas(row.gemm);
  add(variants, "cublas", Method::gemm, NcclBuffer::plain, guess_gemm_us(row.gemm),
      [this, &blas](int i) {
        blas.launch(operands_.call(NcclBuffer::plain, i).gemm, rank_.stream);
      });
  Variant own = gemms_.variant(gemms_.own(row.gemm).plan, row.gemm);
  own.name = "tilelace_gemm";
  timer_.prepare(own, guess_gemm_us(row.gemm));
  variants.push_back(std::move(own));
}

void RankBench::add_unfused(const Row& row, std::vector<Variant>& variants) {
  const double collective_us = guess_collective_us(row);
  const BestBlas& blas = gemms_.blas(row.gemm);
  for (const NcclBuffer kind : operands_.kinds()) {
    add(variants, std::string(name_of(kind)), Method::collective, kind, collective_us,
        [this, &row, kind](int i) { collective(row, operands_.call(kind, i)); });
    add(variants, fmt::format("unfused_{}", name_of(kind)), Method::unfused, kind,
        collective_us + guess_gemm_us(row.gemm), [this, &row, &blas, kind](int i) {
          const Call call = operands_.call(kind, i);
          if (row.op != Op::ag_gemm) blas.launch(call.gemm, rank_.stream);
          collective(row, call);
          if (row.op == Op::ag_gemm) blas.launch(call.gemm, rank_.stream);
        });
  }
}

void RankBench::add_beside(const Row& row, std::vector<Variant>& variants) {
  const BestBlas& blas = gemms_.blas(row.gemm);
  const double guess_us = std::max(guess_gemm_us(row.gemm), guess_collective_us(row));
  const auto launch = [this, &row](int i, const std::function<void()>& product) {
    beside_->run(row, operands_.own_rows(row, operands_.call(NcclBuffer::plain, i)), product);
  };
  add(variants, "beside_cublas", Method::beside, NcclBuffer::plain, guess_us,
      [this, &blas, launch](int i) {
        launch(i, [&] { blas.launch(operands_.call(NcclBuffer::plain, i).gemm, rank_.stream); });
      });
  const Variant own = gemms_.variant(gemms_.own(row.gemm).plan, row.gemm);
  add(variants, "beside_tilelace", Method::beside, NcclBuffer::plain, guess_us,
      [launch, product = own.launch](int i) { launch(i, [&] { product(i); }); });
}

void RankBench::add_medium(const Row& row, std::vector<Variant>& variants) {
  plan::GemmProblem shard = row.gemm;
  shard.m = row.shard_rows();
  const BestBlas& first = gemms_.blas(shard);
  const BestBlas& second = gemms_.twin(shard);
  const double guess_us = guess_collective_us(row) + guess_gemm_us(row.gemm);
  const auto launch = [this, &row](int i, std::initializer_list<const BestBlas*> products) {
    const Call call = operands_.call(NcclBuffer::plain, i);
    medium_->run(row, call, operands_.own_rows(row, call), products);
  };
  add(variants, "medium", Method::medium, NcclBuffer::plain, guess_us,
      [launch, &first](int i) { launch(i, {&first}); });
  add(variants, "medium_two_streams", Method::medium, NcclBuffer::plain, guess_us,
      [launch, &first, &second](int i) {
        launch(i, {&first, &second});
      });
}

void RankBench::add_eager(std::vector<Variant>& variants) {
  std::vector<Variant> more;
  for (const Variant& v : variants) {
    if (v.name != "fused" && v.name != "unfused_nccl") continue;
    Variant e;
    e.name = v.name + "_eager";
    e.launch = v.launch;
    e.method = Method::eager;
    e.buffer = v.buffer;
    e.finish = v.finish;
    e.eager = true;
    timer_.prepare(e, v.quick_us);
    more.push_back(std::move(e));
  }
  for (Variant& e : more) variants.push_back(std::move(e));
}

Figures RankBench::run(const Row& row) {
  operands_.use(row);
  std::vector<Variant> variants;
  add_products(row, variants);
  add_unfused(row, variants);
  if (beside_) add_beside(row, variants);
  if (medium_ && Medium::knows(row)) add_medium(row, variants);
  std::vector<std::string> plans{gemms_.blas(row.gemm).name, gemms_.own(row.gemm).name};
  plans.resize(variants.size());
  Figures f;
  const std::size_t first_fused = variants.size();
  std::vector<FusedChoice> choices;
  if (fused_) choices = fused_->choose(row);
  for (FusedChoice& c : choices) {
    plans.push_back(describe(c.plan));
    variants.push_back(std::move(c.variant));
  }
  if (options_.eager) add_eager(variants);
  plans.resize(variants.size());
  timer_.warm(variants.front());
  timer_.rounds(variants, options_.rounds, options_.lengths);
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const Variant& v = variants[i];
    f.all.push_back({v.name, v.method, plans[i], v.median(), v.spread()});
  }
  if (!choices.empty()) name_fused(f, first_fused, choices);
  f.verified = verify(row, variants);
  return f;
}

Verified RankBench::verify(const Row& row, const std::vector<Variant>& variants) {
  Verified all;
  for (const Variant& variant : variants) {
    if (variant.method != Method::unfused && variant.method != Method::medium &&
        variant.method != Method::fused)
      continue;
    const Verified v = verifier_.check(row, variant);
    // A NaN stays: it is the largest error there is.
    if (v.error && (!all.error || !(*v.error <= *all.error))) all.error = v.error;
    if (v.exact) all.exact = all.exact.value_or(true) && *v.exact;
    if (!v.trouble.empty()) all.trouble += (all.trouble.empty() ? "" : "; ") + v.trouble;
  }
  return all;
}

}  // namespace tilelace::gpu_test
