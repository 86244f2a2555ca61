// SPDX-License-Identifier: Apache-2.0
// The C API: translates, never decides.
#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "bindings/c_handles.h"
#include "bindings/c_structs.h"
#include "tilelace/op_table.h"
#include "tilelace/version.h"

using tilelace::require;
using tilelace::Role;
using tilelace::c_api::as;
using tilelace::c_api::guarded;
using tilelace::c_api::known;
using tilelace::c_api::known_at;
using tilelace::c_api::last_error;
using tilelace::c_api::need;
using tilelace::c_api::view;

namespace {

std::vector<tilelace::TensorView> views(const tilelace_tensor* list, size_t count) {
  std::vector<tilelace::TensorView> all;
  for (size_t i = 0; i < count; ++i) all.push_back(view(list[i]));
  return all;
}

tilelace::CommunicatorOptions options_of(const tilelace_options* given) {
  tilelace::CommunicatorOptions options;
  if (given == nullptr) return options;
  const tilelace_options o = known(*given, "communicator", "options");
  options.workers = o.workers;
  options.max_workers = o.max_workers;
  if (o.timeout_s != 0) options.timeout_s = o.timeout_s;
  options.link_bytes_per_s = o.link_bytes_per_s;
  options.link_latency_s = o.link_latency_s;
  options.device = as<tilelace::Device>(o.device);
  options.device_index = std::max(o.gpu, -INT32_MAX) - 1;
  if (o.tuning != nullptr) options.tuning_file = o.tuning;
  options.autotune = o.autotune_seconds;
  if (o.cache != nullptr) options.cache = o.cache;
  options.deterministic = o.deterministic != 0;
  return options;
}

tilelace::Preparation preparation_of(const char* name, const tilelace_problem& p, int ranks) {
  require(p.num_weights == 0 || p.weights != nullptr, "{}: weights: got NULL, expected {} tensors",
          name, p.num_weights);
  require(p.num_rows == 0 || p.rows != nullptr, "{}: rows: got NULL, expected {} numbers", name,
          p.num_rows);
  tilelace::Preparation result;
  auto& problem = result.problem;
  problem.op = as<tilelace::Op>(p.op);
  problem.ranks = ranks;
  problem.m = p.m;
  problem.k = p.k;
  problem.dtype = as<tilelace::DType>(p.dtype);
  problem.activation = as<tilelace::Activation>(p.activation);
  problem.bias = p.bias != 0;
  problem.return_gathered = p.return_gathered != 0;
  problem.residual = p.residual != 0;
  problem.rows.assign(p.rows, p.rows + p.num_rows);
  result.weights = views(p.weights, p.num_weights);
  for (const auto& w : result.weights) problem.n.push_back(w.rows);
  if (!row_of(problem.op).multiplies()) problem.n = {problem.k};
  return result;
}

/// A call's operands, in lists by what they are to it.
class Call {
 public:
  /// `Args`: what every struct of arguments has.
  template <class Args>
  Call(tilelace::Op op, const Args& from, int ranks) : name_(tilelace::name_of(op)) {
    require(from.num_rows == 0 || from.rows != nullptr, "{}: rows: got NULL, expected {} numbers",
            name_, from.num_rows);
    auto& p = args_.problem;
    p.op = op;
    p.ranks = ranks;
    p.m = from.m;
    p.activation = as<tilelace::Activation>(from.activation);
    p.rows.assign(from.rows, from.rows + from.num_rows);
    args_.operands.stream = from.stream;
  }
  void add(Role role, const tilelace_tensor& tensor) { list(role).push_back(view(tensor)); }
  void add(Role role, const char* what, const tilelace_tensor* tensors, size_t count) {
    require(count == 0 || tensors != nullptr, "{}: {}: got NULL, expected {} tensors", name_, what,
            count);
    for (size_t i = 0; i < count; ++i) add(role, tensors[i]);
  }
  /// Once all operands are there.
  void lay() {
    auto& o = args_.operands;
    o.input = only(Role::input);
    o.gathered = only(Role::gathered);
    o.residual = only(Role::residual);
    o.weights = list(Role::weight);
    o.bias = list(Role::bias);
    o.out = list(Role::out);
    auto& p = args_.problem;
    for (const auto& w : o.weights) p.n.push_back(w.rows);
    p.k = o.input.cols;
    if (!row_of(p.op).multiplies()) p.n = {p.k};
    p.dtype = o.input.dtype;
    p.bias = !o.bias.empty();
    p.return_gathered = !list(Role::gathered).empty();
    p.residual = !list(Role::residual).empty();
  }
  [[nodiscard]] const tilelace::CallArgs& args() const { return args_; }
  [[nodiscard]] const tilelace::OpRow& op() const { return row_of(args_.problem.op); }

 private:
  std::vector<tilelace::TensorView>& list(Role role) { return lists_[static_cast<size_t>(role)]; }
  tilelace::TensorView only(Role role) {
    const auto& tensors = list(role);
    if (tensors.empty()) return {};
    require(tensors.size() == 1, "{}: {}: got {} tensors, expected one", name_,
            op().operand(role)->name, tensors.size());
    return tensors.front();
  }

  std::string_view name_;
  tilelace::CallArgs args_;
  std::array<std::vector<tilelace::TensorView>, 6> lists_;
};

/// Whether C's struct has a tensor there; a rank without rows may have no memory for it.
bool there(const tilelace_tensor& t) { return t.data != nullptr || t.cols != 0; }

void add_operands(Call& call, const tilelace_gemm_reduce_args& args) {
  call.add(Role::input, args.x);
  call.add(Role::weight, args.weight);
  if (args.bias.data != nullptr) call.add(Role::bias, args.bias);
  call.add(Role::out, args.out);
  if (there(args.residual)) call.add(Role::residual, args.residual);
}

void add_operands(Call& call, const tilelace_ag_gemm_args& args) {
  const size_t count = args.num_weights;
  const bool paired = as<tilelace::Activation>(args.activation) == tilelace::Activation::swiglu;
  call.add(Role::input, args.a);
  call.add(Role::weight, "weights", args.weights, count);
  if (args.bias != nullptr) call.add(Role::bias, "bias", args.bias, count);
  require(count == 0 || args.out != nullptr, "ag_gemm: out: got NULL, expected {} tensors", count);
  call.add(Role::out, "out", args.out, paired ? std::min<size_t>(1, count) : count);
  if (args.gathered.data != nullptr) call.add(Role::gathered, args.gathered);
}

void add_operands(Call& call, const tilelace_call_args& args) {
  const tilelace::OpRow& op = call.op();
  require(args.num_operands == 0 || args.operands != nullptr,
          "{}: operands: got NULL, expected {} operands", op.name, args.num_operands);
  for (size_t i = 0; i < args.num_operands; ++i) {
    const auto& given = args.operands[i];
    need(given.name, op.name.data(), "operand name");
    const auto known = std::find_if(op.operands.begin(), op.operands.end(),
                                    [&](const auto& o) { return o.name == given.name; });
    require(known != op.operands.end(),
            "{}: operand: got \"{}\", expected the name of an operand of this op (docs/ops.md)",
            op.name, given.name);
    call.add(known->role, given.tensor);
  }
}

/// Makes a call of C's arguments; where they are none, the peers are told before this rank is.
template <class Args>
tilelace_status run(std::string_view name, tilelace_communicator* c, const Args* args) {
  return guarded([&] {
    need(c, name.data(), "communicator");
    void* stream = nullptr;
    std::optional<Call> call;
    try {
      need(args, name.data(), "args");
      const Args all = known(*args, name.data(), "args");
      stream = all.stream;
      const auto op = tilelace::op_of(name);
      require(op.has_value(), "call: op: got \"{}\", expected {}", name, tilelace::names_of_ops());
      call.emplace(*op, all, c->member.size());
      add_operands(*call, all);
      call->lay();
    } catch (const std::exception& e) {
      tilelace::refuse(c->member, e.what(), stream);
      throw;
    }
    tilelace::call(c->member, call->args());
  });
}

std::vector<tilelace::Preparation> preparations_of(const tilelace_problem* problems, size_t count,
                                                   int ranks) {
  require(count == 0 || problems != nullptr, "prepare: problems: got NULL, expected {} problems",
          count);
  std::vector<tilelace::Preparation> list;
  for (size_t i = 0; i < count; ++i)
    list.push_back(preparation_of("prepare", known_at(problems, i, "prepare", "problems"), ranks));
  return list;
}

using Prepare = void (tilelace::Communicator::*)(std::span<const tilelace::Preparation>);

tilelace_status prepare(tilelace_communicator* c, const tilelace_problem* problems, size_t count,
                        Prepare way) {
  return guarded([&] {
    need(c, "prepare", "communicator");
    std::vector<tilelace::Preparation> list;
    try {
      list = preparations_of(problems, count, c->member.size());
    } catch (const std::exception& e) {
      tilelace::refuse_prepare(c->member, e.what());
      throw;
    }
    (c->member.*way)(list);
  });
}

}  // namespace

extern "C" {

const char* tilelace_version(void) { return TILELACE_VERSION_STRING; }

int32_t tilelace_api_version(void) { return TILELACE_API_VERSION; }

const char* tilelace_last_error(void) { return last_error().c_str(); }

const char* tilelace_status_name(tilelace_status status) {
  if (status == TILELACE_OK) return "ok";
  if (status < TILELACE_OK || status > TILELACE_TIMEOUT) return "unknown";
  return tilelace::name_of(static_cast<tilelace::ErrorKind>(status)).data();
}

tilelace_status tilelace_communicator_threads(int32_t ranks, const tilelace_options* options,
                                              tilelace_communicator** out) {
  return guarded([&] {
    need(out, "communicator", "out");
    auto members = tilelace::Communicator::threads(ranks, options_of(options));
    std::vector<std::unique_ptr<tilelace_communicator>> made;
    for (auto& m : members) {
      made.push_back(std::make_unique<tilelace_communicator>(tilelace_communicator{std::move(m)}));
    }
    for (size_t i = 0; i < made.size(); ++i) out[i] = made[i].release();
  });
}

tilelace_status tilelace_communicator_process(int32_t rank, int32_t ranks, const char* directory,
                                              const tilelace_options* options,
                                              tilelace_communicator** out) {
  return guarded([&] {
    need(out, "communicator", "out");
    need(directory, "communicator", "directory");
    *out = new tilelace_communicator{
        tilelace::Communicator::process(rank, ranks, directory, options_of(options))};
  });
}

tilelace_status tilelace_communicator_launched(const tilelace_options* options,
                                               tilelace_communicator** out) {
  return guarded([&] {
    need(out, "communicator", "out");
    *out = new tilelace_communicator{tilelace::Communicator::launched(options_of(options))};
  });
}

tilelace_status tilelace_communicator_subgroup(tilelace_communicator* c, const int32_t* ranks,
                                               size_t num_ranks, tilelace_communicator** out) {
  return guarded([&] {
    need(c, "subgroup", "communicator");
    need(ranks, "subgroup", "ranks");
    // Before what is wrong here alone: peers do not wait.
    auto made = c->member.subgroup({ranks, num_ranks});
    need(out, "subgroup", "out");
    *out = new tilelace_communicator{std::move(made)};
  });
}

void tilelace_communicator_destroy(tilelace_communicator* c) { delete c; }

tilelace_status tilelace_communicator_rank(const tilelace_communicator* c, int32_t* rank) {
  return guarded([&] {
    need(c, "rank", "communicator");
    need(rank, "rank", "rank");
    *rank = c->member.rank();
  });
}

tilelace_status tilelace_communicator_size(const tilelace_communicator* c, int32_t* size) {
  return guarded([&] {
    need(c, "size", "communicator");
    need(size, "size", "size");
    *size = c->member.size();
  });
}

tilelace_status tilelace_communicator_barrier(tilelace_communicator* c) {
  return guarded([&] {
    need(c, "barrier", "communicator");
    c->member.barrier();
  });
}

tilelace_status tilelace_synchronize(tilelace_communicator* c, void* stream) {
  return guarded([&] {
    need(c, "synchronize", "communicator");
    c->member.synchronize(stream);
  });
}

void tilelace_communicator_abort(tilelace_communicator* c) {
  if (c != nullptr) c->member.abort();
}

tilelace_status tilelace_prepare(tilelace_communicator* c, const tilelace_problem* problems,
                                 size_t num_problems) {
  return prepare(c, problems, num_problems, &tilelace::Communicator::prepare);
}

tilelace_status tilelace_prepare_more(tilelace_communicator* c, const tilelace_problem* problems,
                                      size_t num_problems) {
  return prepare(c, problems, num_problems, &tilelace::Communicator::prepare_more);
}

tilelace_status tilelace_ag_gemm(tilelace_communicator* c, const tilelace_ag_gemm_args* args) {
  return run("ag_gemm", c, args);
}

tilelace_status tilelace_gemm_rs(tilelace_communicator* c, const tilelace_gemm_reduce_args* args) {
  return run("gemm_rs", c, args);
}

tilelace_status tilelace_gemm_ar(tilelace_communicator* c, const tilelace_gemm_reduce_args* args) {
  return run("gemm_ar", c, args);
}

tilelace_status tilelace_call(tilelace_communicator* c, const tilelace_call_args* args) {
  return run(args == nullptr || args->op == nullptr ? "call" : args->op, c, args);
}

tilelace_status tilelace_query_plan(const tilelace_communicator* c, const tilelace_problem* problem,
                                    char* text, size_t size, size_t* needed) {
  return guarded([&] {
    need(c, "query_plan", "communicator");
    need(problem, "query_plan", "problem");
    require(size == 0 || text != nullptr, "query_plan: text: got NULL, expected {} bytes", size);
    const auto p =
        preparation_of("query_plan", known(*problem, "query_plan", "problem"), c->member.size());
    const auto plan = tilelace::query_plan(c->member, p.problem);
    std::ostringstream os;
    os << plan << "; " << plan.reason << "; staging " << plan.staging_bytes << " bytes a slot";
    const std::string full = os.str();
    if (needed != nullptr) *needed = full.size();
    if (size == 0) return;
    const size_t length = std::min(size - 1, full.size());
    std::memcpy(text, full.data(), length);
    text[length] = '\0';
  });
}

}  // extern "C"
