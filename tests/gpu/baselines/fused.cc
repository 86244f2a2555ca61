// SPDX-License-Identifier: Apache-2.0
#include "fused.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "core/check.h"
#include "gemms.h"

namespace tilelace::gpu_test {
namespace {

constexpr double kWaitSeconds = 10;  // below kFinishSeconds: the kernel's record comes first
constexpr std::size_t kFinalists = 4;
constexpr std::size_t kOuts = 4;  // beyond L2 from m 2048 up
constexpr int kFinalRounds = 4;

std::string role_of(const OpPlan& plan) {
  return path_of(plan) == Path::fused ? "fused " + kind_of(plan) : kind_of(plan);
}

}  // namespace

Fused::Fused(Rank& rank, Timer& timer, const Operands& operands, const std::vector<Row>& rows,
             const Options& options)
    : rank_(rank), timer_(timer), operands_(operands), options_(options) {
  std::vector<Problem> problems;
  std::size_t results = 0;
  for (const Row& row : rows) {
    problems.push_back(row.problem());
    if (row.op == Op::gemm_ar) results = std::max(results, kOuts * row.result_bytes());
  }
  if (results > 0)
    outs_ = std::make_unique<ReachableMemory>(*rank.group, rank.device, results, kWaitSeconds);
  ops_ = make_ops(*rank.group, rank.device, problems, kWaitSeconds,
                  cuda::RankShare{0, options.nccl, options.hands});
}

OpTensors Fused::tensors(const Row& row, int i) const {
  const Call call = operands_.call(cuda::NcclBuffer::plain, i);
  const Problem p = row.problem();
  OpTensors t;
  if (row.op != Op::ag_gemm) {
    t.a = call.gemm.a;
    t.weights.push_back(call.gemm.weight);
    t.outs.push_back(call.result);
    if (row.op != Op::gemm_ar) return t;
    t.outs.front() = outs_->data() + static_cast<std::size_t>(i) % kOuts * row.result_bytes();
    t.reachable = outs_->at(t.outs.front());
    return t;
  }
  t.a = operands_.own_rows(row, call);
  const auto* weight = static_cast<const std::byte*>(call.gemm.weight);
  auto* out = static_cast<std::byte*>(call.gemm.out);
  for (const std::int64_t n : p.n) {
    t.weights.push_back(weight);
    t.outs.push_back(out);
    weight += row.bytes_of(n, p.k);
    out += row.bytes_of(p.m, n);
  }
  return t;
}

/// What the planner takes by itself, the best predictions, then the best of each kind that is not
/// among them.
std::vector<OpPlan> Fused::candidates(const Row& row) const {
  auto all = candidates_of(row.problem(), {}, {options_.nccl, options_.hands});
  const OpPlan standard = default_of(row.problem());
  const std::string text = describe(standard);
  std::erase_if(all, [&](const OpPlan& x) { return describe(x) == text; });
  all.insert(all.begin(), standard);
  std::vector<OpPlan> some;
  std::set<std::string> kinds;
  for (const OpPlan& plan : all) {
    if (!cuda::has_kernel(gemm_of(plan), row.gemm.dtype)) continue;
    if (describe(plan).find(options_.only) == std::string::npos) continue;
    const bool fresh = kinds.insert(role_of(plan)).second;
    if (fresh || some.size() < static_cast<std::size_t>(options_.candidates)) some.push_back(plan);
  }
  require(!some.empty(), "{}: {}, got no plan with \"{}\" that this build has, expected one",
          name_of(row.op), text_of(row.problem()), options_.only);
  return some;
}

Variant Fused::variant(const Row& row, const OpPlan& plan) {
  Variant v;
  v.name = describe(plan);
  v.method = Method::fused;
  v.launch = [this, row, p = row.problem(), plan](int i) {
    run_op(*ops_, p, plan, tensors(row, i), rank_.stream);
  };
  if (row.op == Op::gemm_ar)
    v.result = [this, row](int i) { return static_cast<std::byte*>(tensors(row, i).outs.front()); };
  v.finish = [this] { ops_->calls.finish(rank_.stream, kFinishSeconds); };
  timer_.prepare(v, std::max(predicted_us(plan), guess_gemm_us(row.gemm)));
  return v;
}

std::vector<FusedChoice> Fused::choose(const Row& row) {
  const auto plans = candidates(row);
  std::vector<Variant> all;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    all.push_back(variant(row, plans[i]));
    all.back().index = i;
  }
  // All stay, in the order of a quick look; the first of them are timed again with more care.
  timer_.select(all, all.size(), 0, options_.lengths);
  if (options_.all && rank_.group->rank() == 0)
    for (const Variant& v : all)
      std::printf("    %9.2f us (predicted %9.2f)  %s\n", v.quick_us, predicted_us(plans[v.index]),
                  v.name.c_str());
  std::vector<Variant> first;
  for (std::size_t i = 0; i < std::min(kFinalists, all.size()); ++i)
    first.push_back(std::move(all[i]));
  all.erase(all.begin(), all.begin() + std::ssize(first));
  timer_.rounds(first, kFinalRounds, options_.lengths);
  std::stable_sort(first.begin(), first.end(),
                   [](const Variant& x, const Variant& y) { return x.median() < y.median(); });
  for (Variant& v : all) first.push_back(std::move(v));

  std::vector<FusedChoice> chosen;
  std::set<std::string> kinds;
  const bool all_kinds = options_.kinds || row.op != Op::ag_gemm;
  for (Variant& v : first) {
    const OpPlan& plan = plans[v.index];
    const bool fresh = kinds.insert(role_of(plan)).second && all_kinds;
    if (!chosen.empty() && v.index != 0 && !fresh) continue;
    v.samples.clear();
    std::string role = v.index == 0 ? "fused_default" : role_of(plan);
    v.name = chosen.empty() ? "fused" : role;
    chosen.push_back({std::move(role), plan, std::move(v)});
  }
  return chosen;
}

}  // namespace tilelace::gpu_test
