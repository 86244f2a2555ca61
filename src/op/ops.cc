// SPDX-License-Identifier: Apache-2.0
// The public ops: CallArgs -> checks -> Plan -> backend.
#include "tilelace/ops.h"

#include <utility>

#include "core/check.h"
#include "op/impl.h"
#include "op/run_plan.h"
#include "op/tensors.h"
#include "plan/base/problem.h"
#include "tilelace/op_table.h"

namespace tilelace {
namespace {

CallArgs call_of(const AgGemmArgs& args, int ranks) {
  Problem p;
  p.op = Op::ag_gemm;
  p.ranks = ranks;
  p.m = args.m;
  for (const auto& w : args.weights) p.n.push_back(w.rows);
  p.k = args.a.cols;
  p.dtype = args.a.dtype;
  p.bias = !args.bias.empty();
  p.activation = args.activation;
  p.return_gathered = static_cast<bool>(args.gathered);
  p.rows.assign(args.rows.begin(), args.rows.end());
  return {std::move(p),
          {args.a, args.weights, args.bias, args.out, args.gathered, args.stream, {}}};
}

CallArgs call_of(Op op, const GemmReduceArgs& args, int ranks) {
  Problem p;
  p.op = op;
  p.ranks = ranks;
  p.m = args.m;
  p.n = {args.weight.rows};
  p.k = args.x.cols;
  p.dtype = args.x.dtype;
  p.bias = static_cast<bool>(args.bias);
  p.activation = args.activation;
  // A rank without rows may have no memory for it, and yet makes the same call.
  p.residual = args.residual || args.residual.cols != 0;
  p.rows.assign(args.rows.begin(), args.rows.end());
  const std::span<const TensorView> bias{&args.bias, p.bias ? std::size_t{1} : 0};
  return {std::move(p),
          {args.x, {&args.weight, 1}, bias, {&args.out, 1}, {}, args.stream, args.residual}};
}

void check(const CallArgs& call, const comm::Group& group, Part part) {
  const Problem& p = call.problem;
  plan::check_problem(p);
  require(p.ranks == group.ranks(), "{}: ranks: got {}, expected the group's {}", name_of(p.op),
          p.ranks, group.ranks());
  op::check_operands(call, group.rank(), part);
}

const Plan& plan_of(Communicator::Impl& impl, const Problem& problem, const PlanOptions& options) {
  return impl.plan_of(problem, options);
}
const Plan& plan_of(Communicator::Impl& /*impl*/, const Problem& /*problem*/, const Plan& plan) {
  return plan;
}

/// Whether peers that make the same call meet to tune it: of a malformed problem nobody can say.
bool is_first(Communicator::Impl& impl, const CallArgs& call, const PlanOptions& options) {
  if (impl.options.autotune == 0 || !(options == PlanOptions{})) return false;
  try {
    plan::check_problem(call.problem);
  } catch (const Error&) {
    return false;
  }
  return impl.is_first(call.problem, call.operands.stream);
}
bool is_first(Communicator::Impl& /*impl*/, const CallArgs& /*call*/, const Plan& /*plan*/) {
  return false;
}

/// The common course of a call: a rank that finds its own arguments wrong tells its peers.
/// `Choice`: PlanOptions, or a Plan.
template <class Choice>
void run(Communicator& c, const CallArgs& call, const Choice& choice, Part part = Part::whole) {
  auto& impl = c.impl();
  impl.call(name_of(call.problem.op), [&] {
    const Plan* plan = nullptr;
    const bool first = part == Part::whole && is_first(impl, call, choice);
    try {
      check(call, *impl.group, part);
      plan = &plan_of(impl, call.problem, choice);
    } catch (const Error& e) {
      if (first)
        impl.tune_first(call.problem, e.what(), call.operands.stream);
      else if (part != Part::gemm)
        impl.refuse(name_of(call.problem.op), e.what(), call.operands.stream);
      throw;
    }
    if (first) {
      impl.tune_first(call.problem, {}, call.operands.stream);
      plan = &plan_of(impl, call.problem, choice);
    }
    if (part != Part::gemm) impl.compare(call.problem, *plan, part == Part::collective);
    impl.backend->run(call.problem, *plan, call.operands, part);
  });
}

}  // namespace

Problem collective_of(Problem p) {
  // Of what there is no product of an extent that every backend takes.
  if (row_of(p.op).sums) {
    p.k = 8;
    return p;
  }
  p.n = {row_of(p.op).multiplies() ? 8 : p.k};
  p.bias = false;
  p.activation = Activation::none;
  p.return_gathered = true;
  return p;
}

void call(Communicator& c, const CallArgs& args, const PlanOptions& options) {
  run(c, args, options);
}

void ag_gemm(Communicator& c, const AgGemmArgs& args, const PlanOptions& options) {
  call(c, call_of(args, c.size()), options);
}

void gemm_rs(Communicator& c, const GemmReduceArgs& args, const PlanOptions& options) {
  call(c, call_of(Op::gemm_rs, args, c.size()), options);
}

void gemm_ar(Communicator& c, const GemmReduceArgs& args, const PlanOptions& options) {
  call(c, call_of(Op::gemm_ar, args, c.size()), options);
}

void op::run_plan(Communicator& c, const CallArgs& args, const Plan& plan) { run(c, args, plan); }

comm::Group& op::group_of(const Communicator& c) { return *c.impl().group; }

void gemm_only(Communicator& c, const CallArgs& args) {
  CallArgs product = args;
  product.problem.return_gathered = false;
  product.operands.gathered = {};
  if (row_of(args.problem.op).sums) {  // the rank's own part: the rest comes after the sum
    product.problem.bias = product.problem.residual = false;
    product.problem.activation = Activation::none;
    product.operands.bias = {};
    product.operands.residual = {};
  }
  run(c, product, PlanOptions{}, Part::gemm);
}

void gemm_only(Communicator& c, const AgGemmArgs& args) { gemm_only(c, call_of(args, c.size())); }

void gemm_only(Communicator& c, const GemmReduceArgs& args) {
  gemm_only(c, call_of(Op::gemm_rs, args, c.size()));
}

void collective_only(Communicator& c, const CallArgs& args) {
  CallArgs alone{collective_of(args.problem), args.operands};
  alone.operands.weights = {};
  if (row_of(args.problem.op).gathers) alone.operands.bias = alone.operands.out = {};
  PlanOptions options;
  options.path = Path::unfused;
  run(c, alone, options, Part::collective);
}

void collective_only(Communicator& c, const AgGemmArgs& args) {
  collective_only(c, call_of(args, c.size()));
}

void collective_only(Communicator& c, Op op, const GemmReduceArgs& args) {
  CallArgs sum = call_of(op, args, c.size());
  sum.problem.n = {args.x.cols};
  collective_only(c, sum);
}

void check_call(Communicator& c, const CallArgs& args, const PlanOptions& options) {
  auto& impl = c.impl();
  impl.call(name_of(args.problem.op), [&] {
    check(args, *impl.group, Part::whole);
    impl.plan_of(args.problem, options);
  });
}

void check_call(Communicator& c, const AgGemmArgs& args, const PlanOptions& options) {
  check_call(c, call_of(args, c.size()), options);
}

void check_call(Communicator& c, Op op, const GemmReduceArgs& args, const PlanOptions& options) {
  check_call(c, call_of(op, args, c.size()), options);
}

void refuse(Communicator& c, const std::string& reason, void* stream) {
  c.impl().call("refused call", [&] { c.impl().refuse("refused call", reason, stream); });
}

void refuse_prepare(Communicator& c, const std::string& reason) {
  c.impl().call("prepare", [&] { c.impl().backend->prepare({}, Before::goes, op::told(reason)); });
}

Plan query_plan(const Communicator& c, const Problem& problem, const PlanOptions& options) {
  require(problem.ranks == c.size(), "{}: ranks: got {}, expected the group's {}",
          name_of(problem.op), problem.ranks, c.size());
  return make_plan(problem, c.machine(), options);
}

}  // namespace tilelace
