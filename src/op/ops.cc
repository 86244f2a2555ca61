// SPDX-License-Identifier: Apache-2.0
// The public ops: check tensors -> Problem -> Plan -> backend.
#include "tilelace/ops.h"

#include "core/check.h"
#include "op/impl.h"
#include "op/run_plan.h"
#include "op/tensors.h"
#include "plan/problem.h"

namespace tilelace {
namespace {

Problem problem_of(const AgGemmArgs& args, int ranks, Part part) {
  Problem p;
  p.op = Op::ag_gemm;
  p.ranks = ranks;
  p.m = args.m;
  for (const auto& w : args.weights) p.n.push_back(w.rows);
  // A width that every backend takes: no product is made of it.
  if (part == Part::collective && p.n.empty()) p.n.push_back(8);
  p.k = args.a.cols;
  p.dtype = args.a.dtype;
  p.bias = !args.bias.empty();
  p.activation = args.activation;
  p.return_gathered = static_cast<bool>(args.gathered) && part != Part::gemm;
  p.rows.assign(args.rows.begin(), args.rows.end());
  return p;
}

Problem problem_of(Op op, const GemmReduceArgs& args, int ranks, Part part) {
  Problem p;
  p.op = op;
  p.ranks = ranks;
  p.m = args.m;
  p.n = {part == Part::collective ? args.x.cols : args.weight.rows};
  // A depth that every backend takes: no product is made of it.
  p.k = part == Part::collective ? 8 : args.x.cols;
  p.dtype = args.x.dtype;
  p.bias = static_cast<bool>(args.bias);
  p.activation = args.activation;
  // A rank without rows may have no memory for it, and yet makes the same call.
  p.residual = args.residual || args.residual.cols != 0;
  p.rows.assign(args.rows.begin(), args.rows.end());
  return p;
}

void check_weights(const Problem& p, std::span<const TensorView> weights,
                   std::span<const TensorView> bias) {
  const auto op = name_of(p.op);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    op::check_tensor(op, {"weight", i}, weights[i], p.dtype, p.n[i], p.k);
  }
  require(bias.empty() || bias.size() == weights.size(),
          "{}: bias: got {}, expected none or one a weight ({})", op, bias.size(), weights.size());
  for (std::size_t i = 0; i < bias.size(); ++i) {
    op::check_tensor(op, {"bias", i}, bias[i], p.dtype, 1, p.n[i]);
  }
}

/// What a call writes may overlap nothing else that it was given.
void check_outputs_apart(std::string_view op, std::span<const op::Named> inputs,
                         std::span<const op::Named> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (const auto& in : inputs) op::check_apart(op, in, outputs[i]);
    for (std::size_t j = 0; j < i; ++j) op::check_apart(op, outputs[j], outputs[i]);
  }
}

void add_named(std::vector<op::Named>& list, std::string_view name,
               std::span<const TensorView> tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    list.push_back({{name, i}, tensors[i]});
  }
}

void check(const Problem& p, const AgGemmArgs& args, int rank, Part part) {
  plan::check_problem(p);
  const std::int64_t own = part == Part::gemm ? p.m : op::shard_rows(p, rank);
  op::check_tensor("ag_gemm", "a", args.a, p.dtype, own, p.k);
  check_weights(p, args.weights, args.bias);
  std::vector<op::Named> inputs{{"a", args.a}};
  std::vector<op::Named> outputs;
  add_named(inputs, "weight", args.weights);
  add_named(inputs, "bias", args.bias);
  if (part != Part::collective) {
    require(args.out.size() == p.outputs(), "ag_gemm: out: got {} outputs, expected {}",
            args.out.size(), p.outputs());
    for (std::size_t i = 0; i < args.out.size(); ++i) {
      op::check_tensor("ag_gemm", {"out", i}, args.out[i], p.dtype, p.m, p.n[i]);
    }
    add_named(outputs, "out", args.out);
  }
  if (part == Part::collective || args.gathered) {
    op::check_tensor("ag_gemm", "gathered", args.gathered, p.dtype, p.m, p.k);
    outputs.push_back({"gathered", args.gathered});
  }
  check_outputs_apart("ag_gemm", inputs, outputs);
}

void check(const Problem& p, const GemmReduceArgs& args, int rank, Part part) {
  const auto op = name_of(p.op);
  require(p.op != Op::ag_gemm, "ag_gemm: args: got those of gemm_rs and gemm_ar, expected its own");
  plan::check_problem(p);
  op::check_tensor(op, "x", args.x, p.dtype, p.m, part == Part::collective ? p.n[0] : p.k);
  std::vector<op::Named> inputs{{"x", args.x}};
  if (part != Part::collective) {
    check_weights(p, {&args.weight, 1}, {&args.bias, p.bias ? std::size_t{1} : 0});
    inputs.push_back({{"weight", 0}, args.weight});
  } else if (p.bias) {
    op::check_tensor(op, {"bias", 0}, args.bias, p.dtype, 1, p.n[0]);
  }
  if (p.bias) inputs.push_back({{"bias", 0}, args.bias});
  const bool all_rows = p.op == Op::gemm_ar || part == Part::gemm;
  const std::int64_t rows = all_rows ? p.m : op::shard_rows(p, rank);
  op::check_tensor(op, "out", args.out, p.dtype, rows, p.n[0]);
  if (p.residual) {
    op::check_tensor(op, "residual", args.residual, p.dtype, rows, p.n[0]);
    inputs.push_back({"residual", args.residual});
  }
  const op::Named out{"out", args.out};
  check_outputs_apart(op, inputs, {&out, 1});
}

template <class Args>
void check_alone(Communicator& c, const Problem& problem, const Args& args,
                 const PlanOptions& options) {
  auto& impl = c.impl();
  impl.call(name_of(problem.op), [&] {
    check(problem, args, impl.group->rank(), Part::whole);
    impl.plan_of(problem, options);
  });
}

const Plan& plan_of(Communicator::Impl& impl, const Problem& problem, const PlanOptions& options) {
  return impl.plan_of(problem, options);
}
const Plan& plan_of(Communicator::Impl& /*impl*/, const Problem& /*problem*/, const Plan& plan) {
  return plan;
}

/// The common course of a call: a rank that finds its own arguments wrong tells its peers.
/// `Choice`: PlanOptions, or a Plan.
template <class Args, class Choice>
void run(Communicator& c, const Problem& problem, const Args& args, const Operands& operands,
         const Choice& choice, Part part) {
  auto& impl = c.impl();
  impl.call(name_of(problem.op), [&] {
    const Plan* plan = nullptr;
    try {
      check(problem, args, impl.group->rank(), part);
      plan = &plan_of(impl, problem, choice);
    } catch (const Error& e) {
      if (part != Part::gemm) impl.refuse(name_of(problem.op), e.what(), operands.stream);
      throw;
    }
    if (part != Part::gemm) impl.compare(problem, *plan, part == Part::collective);
    impl.backend->run(problem, *plan, operands, part);
  });
}

template <class Choice>
void run(Communicator& c, const AgGemmArgs& args, const Choice& choice, Part part) {
  run(c, problem_of(args, c.size(), part), args,
      {args.a, args.weights, args.bias, args.out, args.gathered, args.stream, {}}, choice, part);
}

template <class Choice>
void run(Communicator& c, Op op, const GemmReduceArgs& args, const Choice& choice, Part part) {
  const Problem problem = problem_of(op, args, c.size(), part);
  const std::span<const TensorView> bias{&args.bias, problem.bias ? std::size_t{1} : 0};
  const std::span<const TensorView> weights{&args.weight,
                                            part == Part::collective ? std::size_t{0} : 1};
  run(c, problem, args, {args.x, weights, bias, {&args.out, 1}, {}, args.stream, args.residual},
      choice, part);
}

}  // namespace

void ag_gemm(Communicator& c, const AgGemmArgs& args, const PlanOptions& options) {
  run(c, args, options, Part::whole);
}

void gemm_rs(Communicator& c, const GemmReduceArgs& args, const PlanOptions& options) {
  run(c, Op::gemm_rs, args, options, Part::whole);
}

void gemm_ar(Communicator& c, const GemmReduceArgs& args, const PlanOptions& options) {
  run(c, Op::gemm_ar, args, options, Part::whole);
}

void op::run_plan(Communicator& c, const AgGemmArgs& args, const Plan& plan) {
  run(c, args, plan, Part::whole);
}

void op::run_plan(Communicator& c, Op op, const GemmReduceArgs& args, const Plan& plan) {
  run(c, op, args, plan, Part::whole);
}

comm::Group& op::group_of(const Communicator& c) { return *c.impl().group; }

void gemm_only(Communicator& c, const AgGemmArgs& args) { run(c, args, PlanOptions{}, Part::gemm); }

void gemm_only(Communicator& c, const GemmReduceArgs& args) {
  GemmReduceArgs product = args;  // the rank's own partial: bias and activation come after the sum
  product.bias = {};
  product.residual = {};
  product.activation = Activation::none;
  run(c, Op::gemm_rs, product, PlanOptions{}, Part::gemm);
}

void collective_only(Communicator& c, const AgGemmArgs& args) {
  AgGemmArgs gather = args;
  gather.weights = {};
  gather.bias = {};
  gather.out = {};
  gather.activation = Activation::none;
  PlanOptions options;
  options.path = Path::unfused;
  run(c, gather, options, Part::collective);
}

void collective_only(Communicator& c, Op op, const GemmReduceArgs& args) {
  PlanOptions options;
  options.path = Path::unfused;
  run(c, op, args, options, Part::collective);
}

void check_call(Communicator& c, const AgGemmArgs& args, const PlanOptions& options) {
  check_alone(c, problem_of(args, c.size(), Part::whole), args, options);
}

void check_call(Communicator& c, Op op, const GemmReduceArgs& args, const PlanOptions& options) {
  check_alone(c, problem_of(op, args, c.size(), Part::whole), args, options);
}

void refuse(Communicator& c, const std::string& reason, void* stream) {
  c.impl().call("refused call", [&] { c.impl().refuse("refused call", reason, stream); });
}

void refuse_prepare(Communicator& c, const std::string& reason) {
  // Without a reason it would be a prepare of nothing.
  const std::string_view told = reason.empty() ? "no reason given" : std::string_view(reason);
  c.impl().call("prepare", [&] { c.impl().backend->prepare({}, Before::goes, told); });
}

Plan query_plan(const Communicator& c, const Problem& problem, const PlanOptions& options) {
  require(problem.ranks == c.size(), "{}: ranks: got {}, expected the group's {}",
          name_of(problem.op), problem.ranks, c.size());
  return make_plan(problem, c.machine(), options);
}

}  // namespace tilelace
