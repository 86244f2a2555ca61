// SPDX-License-Identifier: Apache-2.0
#include "api/sums.h"

#include <fmt/format.h>

#include <functional>
#include <string_view>

#include "backend/cuda/base/cuda_check.h"
#include "gemm/data.h"

namespace tilelace::gpu_test {
SumTensors::SumTensors(Member& member, const Problem& p, bool exact, bool reachable)
    : CallOperands(member, p, exact, reachable),
      partial_(*member.comm, static_cast<std::size_t>(p.m * p.n[0]) * size_of(p.dtype)) {}

void SumTensors::fill(std::uint64_t seed) {
  CallOperands::fill(seed);
  test::poison(partial_.data(), partial_.bytes(), member_.stream);
}

GemmReduceArgs SumTensors::args() const {
  GemmReduceArgs args;
  args.m = problem().m;
  args.x = views().input;
  args.weight = views().weights.front();
  if (problem().bias) args.bias = views().biases.front();
  args.residual = views().residual;
  args.activation = problem().activation;
  args.out = views().outs.front();
  args.rows = problem().rows;
  args.stream = member_.stream;
  return args;
}

GemmReduceArgs SumTensors::product_args() const {
  GemmReduceArgs args = this->args();
  args.out = dense(partial_.data(), problem().dtype, problem().m, problem().n[0]);
  args.rows = {};
  return args;
}

GemmReduceArgs SumTensors::collective_args() const {
  GemmReduceArgs args = this->args();
  args.x = product_args().out;
  args.weight = {};
  return args;
}

void SumTensors::call(const GemmReduceArgs& args, const PlanOptions& options) const {
  problem().op == Op::gemm_rs ? gemm_rs(*member_.comm, args, options)
                              : gemm_ar(*member_.comm, args, options);
}

Finding SumTensors::check_partial() const {
  const Problem& p = problem();
  if (p.m == 0) return {};
  const auto j = test::judge({views().input.data,
                              views().weights.front().data,
                              nullptr,
                              partial_.data(),
                              {p.m, p.n[0], p.k, p.dtype},
                              Activation::none},
                             0, exact(), 0, member_.stream);
  if (j.wrong == 0) return {};
  return fmt::format("partial: {} of {} elements wrong: row {} column {}: got {}, expected {}",
                     j.wrong, j.checked, j.row, j.col, j.got, j.expected);
}

std::uint64_t SumTensors::hash() const {
  const auto out = pieces().front();
  std::string host(out.size(), '\0');
  cuda::check(cudaMemcpy(host.data(), out.data(), host.size(), cudaMemcpyDeviceToHost), "a result");
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
