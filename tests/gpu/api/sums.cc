// SPDX-License-Identifier: Apache-2.0
#include "api/sums.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string_view>

#include "backend/cuda/cuda_check.h"
#include "gemm/data.h"

namespace tilelace::gpu_test {
namespace {

constexpr std::size_t kGuard = 1 << 16;  // bytes; more than a wrong stride reaches beyond a result
constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15ULL;
constexpr unsigned kPartShift = 40;

std::size_t bytes_of(std::int64_t rows, std::int64_t cols) {
  return static_cast<std::size_t>(rows * cols) * 2;
}

std::byte* bytes_at(const DeviceBuffer& buffer, std::size_t offset) {
  return static_cast<std::byte*>(buffer.data()) + offset;
}

}  // namespace

SumTensors::SumTensors(Member& member, const Problem& problem, bool exact, bool reachable)
    : member_(member),
      problem_(problem),
      exact_(exact),
      first_(test::OpShape(problem, member.rank()).result_row),
      rows_(test::OpShape(problem, member.rank()).results),
      inputs_(*member.comm,
              static_cast<std::size_t>(problem.ranks) * bytes_of(problem.m, problem.k)),
      weights_(*member.comm,
               static_cast<std::size_t>(problem.ranks) * bytes_of(problem.n[0], problem.k)),
      bias_(*member.comm, bytes_of(1, problem.n[0])),
      partial_(*member.comm, bytes_of(problem.m, problem.n[0])),
      residual_(*member.comm,
                std::max<std::size_t>(16, problem.residual ? bytes_of(rows_, problem.n[0]) : 0)),
      results_bytes_(bytes_of(rows_, problem.n[0]) + 2 * kGuard) {
  results_ = static_cast<std::byte*>(
      reachable ? reachable_results_.emplace(*member.comm, results_bytes_).local()
                : own_results_.emplace(*member.comm, results_bytes_).data());
  const auto own = static_cast<std::size_t>(member.rank());
  const Problem& p = problem_;
  x_ = dense(bytes_at(inputs_, own * bytes_of(p.m, p.k)), p.dtype, p.m, p.k);
  weight_ = dense(bytes_at(weights_, own * bytes_of(p.n[0], p.k)), p.dtype, p.n[0], p.k);
  out_ = dense(results_ + kGuard, p.dtype, rows_, p.n[0]);
  for (int r = 0; r < p.ranks; ++r) {
    std::byte* const to = bytes_at(weights_, static_cast<std::size_t>(r) * bytes_of(p.n[0], p.k));
    const std::uint64_t seed = kStep * static_cast<std::uint64_t>(67 + 2 * r);
    if (exact)
      test::fill_sparse(to, p.n[0], p.k, static_cast<int>(p.k), p.dtype, seed, member.stream);
    else
      test::fill_normal(to, static_cast<std::size_t>(p.n[0] * p.k), p.dtype, seed, member.stream);
  }
  test::fill_normal(bias_.data(), static_cast<std::size_t>(p.n[0]), p.dtype, ~kStep, member.stream);
  if (!p.residual || rows_ == 0) return;
  if (exact)
    test::fill_sparse(residual_.data(), rows_, p.n[0], static_cast<int>(p.n[0]), p.dtype, ~kStep,
                      member.stream, first_);
  else
    test::fill_normal(residual_.data(), static_cast<std::size_t>(rows_ * p.n[0]), p.dtype, ~kStep,
                      member.stream, static_cast<std::size_t>(first_ * p.n[0]));
}

void SumTensors::fill(std::uint64_t seed) {
  const Problem& p = problem_;
  for (int r = 0; r < p.ranks && p.m > 0; ++r) {
    std::byte* const to = bytes_at(inputs_, static_cast<std::size_t>(r) * bytes_of(p.m, p.k));
    const std::uint64_t own = seed * kStep + (static_cast<std::uint64_t>(r) << kPartShift);
    if (exact_)
      test::fill_sparse(to, p.m, p.k, std::min(32, 255 / p.ranks), p.dtype, own, member_.stream);
    else
      test::fill_normal(to, static_cast<std::size_t>(p.m * p.k), p.dtype, own, member_.stream);
  }
  test::poison(partial_.data(), partial_.bytes(), member_.stream);
  test::poison(results_, results_bytes_, member_.stream);
}

GemmReduceArgs SumTensors::args() const {
  GemmReduceArgs args;
  args.m = problem_.m;
  args.x = x_;
  args.weight = weight_;
  if (problem_.bias) args.bias = dense(bias_.data(), problem_.dtype, 1, problem_.n[0]);
  if (problem_.residual)
    args.residual =
        dense(rows_ == 0 ? nullptr : residual_.data(), problem_.dtype, rows_, problem_.n[0]);
  args.activation = problem_.activation;
  args.out = out_;
  args.rows = problem_.rows;
  args.stream = member_.stream;
  return args;
}

GemmReduceArgs SumTensors::product_args() const {
  GemmReduceArgs args = this->args();
  args.out = dense(partial_.data(), problem_.dtype, problem_.m, problem_.n[0]);
  args.rows = {};
  return args;
}

GemmReduceArgs SumTensors::collective_args() const {
  GemmReduceArgs args = this->args();
  args.x = product_args().out;
  args.weight = {};
  return args;
}

Preparation SumTensors::preparation(const PlanOptions& options) const {
  return {problem_, {weight_}, options};
}

void SumTensors::call(const GemmReduceArgs& args, const PlanOptions& options) const {
  problem_.op == Op::gemm_rs ? gemm_rs(*member_.comm, args, options)
                             : gemm_ar(*member_.comm, args, options);
}

Finding SumTensors::check() const {
  if (rows_ == 0) return check_untouched();
  const Problem& p = problem_;
  test::Judged judged{bytes_at(inputs_, bytes_of(first_, p.k)),
                      weights_.data(),
                      p.bias ? bias_.data() : nullptr,
                      out_.data,
                      {rows_, p.n[0], p.k, p.dtype},
                      p.activation,
                      {p.ranks, p.m * p.k, p.n[0] * p.k, roundings_}};
  if (p.residual) judged.residual = residual_.data();
  const auto j = test::judge(judged, 0, exact_, 0, member_.stream);
  if (j.wrong != 0)
    return fmt::format(
        "out: {} of {} elements wrong, rows {} to {} of m: row {} column {}: got {}, expected {}",
        j.wrong, j.checked, first_ + j.first_row, first_ + j.last_row, first_ + j.row, j.col, j.got,
        j.expected);
  return check_guards();
}

Finding SumTensors::check_partial() const {
  const Problem& p = problem_;
  if (p.m == 0) return {};
  const auto j = test::judge({x_.data,
                              weight_.data,
                              nullptr,
                              partial_.data(),
                              {p.m, p.n[0], p.k, p.dtype},
                              Activation::none},
                             0, exact_, 0, member_.stream);
  if (j.wrong == 0) return {};
  return fmt::format("partial: {} of {} elements wrong: row {} column {}: got {}, expected {}",
                     j.wrong, j.checked, j.row, j.col, j.got, j.expected);
}

Finding SumTensors::check_guards() const {
  const std::size_t bytes = bytes_of(rows_, problem_.n[0]);
  const auto before = test::count_unpoisoned(results_, kGuard, member_.stream);
  const auto behind = test::count_unpoisoned(results_ + kGuard + bytes, kGuard, member_.stream);
  if (before + behind == 0) return {};
  return fmt::format("{} bytes written before the result, {} behind it", before, behind);
}

Finding SumTensors::check_untouched() const {
  const auto bytes = test::count_unpoisoned(results_, results_bytes_, member_.stream);
  return bytes == 0 ? Finding() : fmt::format("{} bytes of results written, expected none", bytes);
}

std::uint64_t SumTensors::hash() const {
  std::string host(bytes_of(rows_, problem_.n[0]), '\0');
  cuda::check(cudaMemcpy(host.data(), out_.data, host.size(), cudaMemcpyDeviceToHost), "a result");
  return std::hash<std::string_view>{}(host);
}

Problem sum_problem_of(Op op, int ranks, std::int64_t m, std::int64_t n, std::int64_t k) {
  Problem p = problem_of(ranks, m, {n}, k);
  p.op = op;
  return p;
}

Finding equal_on_ranks(Member& member, std::uint64_t mine, const std::string& what) {
  SymmetricBuffer shared(*member.comm, sizeof mine);
  cudaMemcpy(shared.local(), &mine, sizeof mine, cudaMemcpyDefault);
  cudaDeviceSynchronize();
  member.comm->barrier();
  Finding found;
  for (int r = 0; r < member.ranks(); ++r) {
    std::uint64_t theirs = 0;
    cudaMemcpy(&theirs, shared.peer(r), sizeof theirs, cudaMemcpyDefault);
    if (theirs != mine && found.empty())
      found = fmt::format("{}: got {:016x}, rank {} has {:016x}, expected the same bits", what,
                          mine, r, theirs);
  }
  member.comm->barrier();
  return found;
}

}  // namespace tilelace::gpu_test
