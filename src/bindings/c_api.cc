// SPDX-License-Identifier: Apache-2.0
// The C API: translates, never decides.
#include <algorithm>
#include <cstring>
#include <exception>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "bindings/c_handles.h"
#include "bindings/c_structs.h"

using tilelace::require;
using tilelace::c_api::guarded;
using tilelace::c_api::known;
using tilelace::c_api::known_at;
using tilelace::c_api::last_error;
using tilelace::c_api::need;

namespace {

/// Values that name nothing stay such: the call judges them, so that peers learn of them too.
template <class Enum>
Enum as(int32_t value) {
  return static_cast<Enum>(value >= 0 && value < 255 ? value : 255);
}

tilelace::TensorView view(const tilelace_tensor& t) {
  return {t.data, as<tilelace::DType>(t.dtype), t.rows, t.cols, t.stride};
}

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
  return options;
}

tilelace::Preparation preparation_of(const char* name, const tilelace_problem& p, int ranks) {
  require(p.num_weights == 0 || p.weights != nullptr, "{}: weights: got NULL, expected {}", name,
          p.num_weights);
  require(p.num_rows == 0 || p.rows != nullptr, "{}: rows: got NULL, expected {}", name,
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
  return result;
}

/// Makes a call's arguments of C's; where that cannot be, the peers are told before this rank is.
template <class Args, class Make>
auto told(tilelace_communicator& c, const char* name, const Args* args, const Make& make) {
  void* stream = nullptr;
  try {
    need(args, name, "args");
    const Args all = known(*args, name, "args");
    stream = all.stream;
    return make(all);
  } catch (const std::exception& e) {
    tilelace::refuse(c.member, e.what(), stream);
    throw;
  }
}

tilelace::GemmReduceArgs reduce_args(const char* name, const tilelace_gemm_reduce_args& args) {
  require(args.num_rows == 0 || args.rows != nullptr, "{}: rows: got NULL, expected {}", name,
          args.num_rows);
  tilelace::GemmReduceArgs a;
  a.m = args.m;
  a.x = view(args.x);
  a.weight = view(args.weight);
  if (args.bias.data != nullptr) a.bias = view(args.bias);
  a.activation = as<tilelace::Activation>(args.activation);
  a.out = view(args.out);
  a.rows = {args.rows, args.num_rows};
  a.stream = args.stream;
  a.residual = view(args.residual);
  return a;
}

using ReduceOp = void (*)(tilelace::Communicator&, const tilelace::GemmReduceArgs&,
                          const tilelace::PlanOptions&);

tilelace_status gemm_reduce(const char* name, ReduceOp op, tilelace_communicator* c,
                            const tilelace_gemm_reduce_args* args) {
  return guarded([&] {
    need(c, name, "communicator");
    op(c->member, told(*c, name, args, [&](const auto& all) { return reduce_args(name, all); }),
       {});
  });
}

/// An ag_gemm's arguments, and the lists that they look into.
struct GatherArgs {
  explicit GatherArgs(const tilelace_ag_gemm_args& given) : args(given) {
    const size_t count = args.num_weights;
    require(count == 0 || args.weights != nullptr, "ag_gemm: weights: got NULL, expected {}",
            count);
    require(count == 0 || args.out != nullptr, "ag_gemm: out: got NULL, expected {}", count);
    require(args.num_rows == 0 || args.rows != nullptr, "ag_gemm: rows: got NULL, expected {}",
            args.num_rows);
    const bool paired = as<tilelace::Activation>(args.activation) == tilelace::Activation::swiglu;
    weights = views(args.weights, count);
    bias = views(args.bias, args.bias == nullptr ? 0 : count);
    out = views(args.out, paired ? std::min<size_t>(1, count) : count);
  }
  tilelace_ag_gemm_args args;
  std::vector<tilelace::TensorView> weights, bias, out;
};

std::vector<tilelace::Preparation> preparations_of(const tilelace_problem* problems, size_t count,
                                                   int ranks) {
  require(count == 0 || problems != nullptr, "prepare: problems: got NULL, expected {}", count);
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

const char* tilelace_version(void) { return TILELACE_VERSION; }

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
  return guarded([&] {
    need(c, "ag_gemm", "communicator");
    const auto told_args =
        told(*c, "ag_gemm", args, [](const auto& all) { return GatherArgs(all); });
    const tilelace_ag_gemm_args& all = told_args.args;
    tilelace::AgGemmArgs a;
    a.activation = as<tilelace::Activation>(all.activation);
    a.m = all.m;
    a.a = view(all.a);
    a.weights = told_args.weights;
    a.bias = told_args.bias;
    a.out = told_args.out;
    if (all.gathered.data != nullptr) a.gathered = view(all.gathered);
    a.rows = {all.rows, all.num_rows};
    a.stream = all.stream;
    tilelace::ag_gemm(c->member, a);
  });
}

tilelace_status tilelace_gemm_rs(tilelace_communicator* c, const tilelace_gemm_reduce_args* args) {
  return gemm_reduce("gemm_rs", tilelace::gemm_rs, c, args);
}

tilelace_status tilelace_gemm_ar(tilelace_communicator* c, const tilelace_gemm_reduce_args* args) {
  return gemm_reduce("gemm_ar", tilelace::gemm_ar, c, args);
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
