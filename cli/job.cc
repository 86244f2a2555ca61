// SPDX-License-Identifier: Apache-2.0
#include "job.h"

#include <fmt/ostream.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>
#include <string_view>

#include "backend/cpu/gemm/tile_gemm.h"
#include "core/architecture.h"
#include "core/check.h"
#include "machine.h"
#include "plan/gpu/kernel_choice.h"
#include "plan/tuning/find_tuning.h"
#include "plan/words/agreement.h"
#include "plan/words/plan_words.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace::cli {
namespace {

/// What a rank's fp64 check holds at a time (see verify.cc), in bytes.
constexpr double kCheckBytes = 160e6;

double packed_element(DType dtype) {
  // An engine without a product for the type packs it as fp32.
  const std::string_view engine = cpu::gemm_engine_name(dtype);
  return engine.find(name_of(dtype)) != std::string_view::npos ? static_cast<double>(size_of(dtype))
                                                               : 4.0;
}

double job_bytes(const Workload& work, const Job& job, std::int64_t m, const Machine& machine) {
  const double ranks = work.ranks;
  const auto rows = static_cast<double>(m);
  const auto n = static_cast<double>(sum_of(job.gemm.n));
  const auto k = static_cast<double>(job.gemm.k);
  const auto element = static_cast<double>(size_of(work.dtype));
  const double weights = ranks * n * k * (element + packed_element(work.dtype));
  const bool gather = row_of(job.gemm.op).gathers;
  const double input = rows * static_cast<double>(job.gemm.full_k) * element;
  const double gathered = gather ? ranks * input : 0;
  // Reductions also keep each rank's partial, the GEMM's result when it runs alone.
  const double out = rows * n * element * (gather ? ranks : 2 * ranks);
  double staging = 0;
  for (const PlanOptions& options : ways_of(work, job)) {
    const Plan plan = make_plan(problem_of(job.gemm, m, work.dtype), machine, options);
    staging = std::max(staging, 2 * ranks * static_cast<double>(plan.staging_bytes));
  }
  return weights + input + gathered + out + staging + (work.check ? ranks * kCheckBytes : 0);
}

/// The same on each GPU, on which the tensors lie a second time.
void check_gpu_memory(const Workload& work, const Machine& machine) {
  Workload bare = work;
  bare.check = false;
  const std::int64_t needed = memory_needed(bare, machine) / work.ranks;
  require(static_cast<double>(needed) <= 0.9 * static_cast<double>(work.gpus.memory_bytes),
          "memory: these sizes need {} on each GPU, which has {}: take a smaller --m",
          show_bytes(needed), show_bytes(work.gpus.memory_bytes));
}

/// options_for drops what a product has no use for; where no product has, nobody would notice.
void check_options_of(const Workload& work, const PlanOptions& options) {
  const auto any = [&](auto takes) {
    return std::any_of(work.jobs.begin(), work.jobs.end(),
                       [&](const Job& job) { return takes(job.gemm.op); });
  };
  require(!options.blocks || any([](Op op) { return row_of(op).shares; }),
          "--plan blocks: only gemm_ar has blocks, and it is not among these ops");
  require(
      !options.partials || any([](Op op) { return row_of(op).sums; }),
      "--plan partials: only gemm_rs and gemm_ar have partials, and neither is among these ops");
  if (!options.partials || *options.partials == work.dtype) return;
  require(*options.partials == kAccumulator, "--plan partials: got {}, expected {}{}",
          name_of(*options.partials), name_of(work.dtype),
          work.dtype == kAccumulator ? "" : fmt::format(" or {}", name_of(kAccumulator)));
}

void check_ops(const Workload& work) {
  check_options_of(work, work.options);
  for (const Job& job : work.jobs)
    if (job.options) check_options_of(work, *job.options);
}

void require_architecture(const Plan& plan, const Machine& machine) {
  if (plan.kernel == nullptr) return;
  const int got = plan::gemm_of(plan.kernel->way).architecture;
  require(got == machine.architecture, "--plan: got a tile for {}, expected a tile for {}",
          name_of_architecture(got), name_of_architecture(machine.architecture));
}

}  // namespace

std::int64_t sum_of(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

model::LayerGemm plain_gemm(Op op, const std::vector<std::int64_t>& n, std::int64_t k, int ranks) {
  const bool gather = row_of(op).gathers;
  require(gather || n.size() == 1, "{}: n: got {} values, expected one", name_of(op), n.size());
  model::LayerGemm g;
  g.op = op;
  g.tp = ranks;
  g.full_n = g.n = n;
  g.full_k = g.k = k;
  if (!row_of(op).multiplies()) {
    g.full_n = g.n = {k};
    return g;
  }
  const auto cut = [&](std::int64_t& split) {
    require(split % ranks == 0, "{}: {}: got {}, expected a multiple of --tp {}", name_of(op),
            gather ? "n" : "k", split, ranks);
    split /= ranks;
  };
  if (gather)
    std::for_each(g.n.begin(), g.n.end(), cut);
  else
    cut(g.k);
  return g;
}

Job plain_mlp(std::string_view name, std::int64_t n, std::int64_t k, int ranks) {
  Job job{plain_gemm(Op::ag_gemm, {n, n}, k, ranks)};
  job.gemm.gated = true;
  job.gemm.activation = Activation::swiglu;
  job.then = plain_gemm(name == kMlpNames[0] ? Op::gemm_rs : Op::gemm_ar, {k}, n, ranks);
  return job;
}

std::string_view name_of(const Job& job) {
  if (!job.then) return name_of(job.gemm.op);
  return kMlpNames[row_of(job.then->op).scatters() ? 0 : 1];
}

const Job& job_of(const Workload& work, int row) {
  return work.jobs[static_cast<std::size_t>(row) / work.sizes.size()];
}
std::int64_t m_of(const Workload& work, int row) {
  return work.sizes[static_cast<std::size_t>(row) % work.sizes.size()];
}

Problem problem_of(const model::LayerGemm& gemm, std::int64_t m, DType dtype) {
  Problem p;
  p.op = gemm.op;
  p.ranks = gemm.tp;
  p.m = m;
  p.n = gemm.n;
  p.k = gemm.k;
  p.dtype = dtype;
  p.bias = gemm.bias;
  p.activation = gemm.activation;
  return p;
}

PlanOptions options_for(const PlanOptions& options, const Job& job) {
  PlanOptions o = job.options.value_or(options);
  if (!row_of(job.gemm.op).shares) o.blocks.reset();
  if (row_of(job.gemm.op).gathers) o.partials.reset();
  return o;
}

namespace {

/// "pull 64" of "transport=pull,chunk=64".
std::string values_of(std::string_view plan) {
  std::string values;
  for (const auto& [key, value] : split_pairs("--plan", plan)) {
    if (!values.empty()) values += ' ';
    values += value;
  }
  return values;
}

}  // namespace

void take_plans(const std::vector<std::string>& plans, Workload& work) {
  if (plans.size() == 1 && is_printed_plan(plans[0])) {
    require(work.device == Device::cuda,
            "--plan: a printed plan is for GPU ranks: add --backend cuda, or give KEY=VALUE");
    work.plan = one_line(plans[0]);
    return;
  }
  if (plans.size() == 1) work.options = parse_plan_options("--plan", plans[0]);
  if (plans.size() < 2) return;
  const std::vector<Job> jobs = std::move(work.jobs);
  const std::vector<bool> skip = std::move(work.skip);
  work.jobs.clear(), work.skip.clear();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    for (const std::string& plan : plans) {
      work.jobs.push_back(jobs[i]);
      work.jobs.back().options = parse_plan_options("--plan", plan);
      work.jobs.back().given = values_of(plan);
      const std::size_t sizes = work.sizes.size();
      for (std::size_t m = 0; m < sizes && !skip.empty(); ++m)
        work.skip.push_back(skip[i * sizes + m]);
    }
  }
}

constexpr std::string_view kBaselines[] = {"cublas", "nccl", "nccl_registered", "nccl_window",
                                           "beside"};

namespace {

std::vector<std::string> names_among(std::span<const std::string_view> all, std::string_view text) {
  auto names = split_list("--baselines", text);
  for (const std::string& name : names)
    require(std::ranges::count(all, name) > 0, "--baselines: got \"{}\", expected {}", name,
            fmt::join(all, ", "));
  return names;
}

}  // namespace

std::vector<std::string> parse_baselines(std::string_view text) {
  return names_among(kBaselines, text);
}
std::vector<std::string> parse_buffers(std::string_view text) {
  return names_among(std::span(kBaselines).subspan(1, 3), text);
}

std::vector<Path> baseline_paths(Device device, Op op) {
  if (device == Device::cuda && row_of(op).shares) return {Path::unfused};
  return {Path::medium, Path::unfused};
}

PlanOptions baseline_options(const PlanOptions& options, Path path, Device device) {
  PlanOptions o;
  o.path = path;
  if (device == Device::cuda) return o;  // its tiles are the kernels', not the fused plan's
  o.tile_m = options.tile_m;
  o.tile_n = options.tile_n;
  o.partials = options.partials;
  return o;
}

/// Candidates have so many of the fastest predictions, whatever kind they are.
constexpr int kFirstPredictions = 5;

std::vector<plan::CudaWay> candidates_of(const Workload& work, const Job& job, std::int64_t m,
                                         const Machine& machine) {
  std::vector<plan::CudaWay> some;
  const Problem problem = problem_of(job.gemm, m, work.dtype);
  if (!work.plan.empty()) {
    const Plan plan = plan::plan_of_words(problem, work.plan);
    require(m == 0 || plan.kernel != nullptr,
            "--plan: \"{}\" has no tile after \"; \": copy the whole printed plan", work.plan);
    require_architecture(plan, machine);
    return {{plan, plan::kind_of(plan), 0}};
  }
  if (work.candidates == 0 && work.kinds.empty()) return some;
  const Plan standard = make_plan(problem, machine);
  some.push_back({standard, plan::kind_of(standard), 0});
  std::map<std::string, int> of_kind;
  int number = 0;
  if (m == 0) return some;
  for (plan::CudaWay& way : plan::cuda_ways(problem, machine, work.kinds)) {
    if (work.kinds.empty() && !plan::may_be_tuned(way.plan.kernel->way)) continue;
    ++number;
    const bool more = of_kind[way.kind]++ < std::max(1, work.candidates);
    if (plan::choice_bytes(way.plan) == plan::choice_bytes(standard))
      some.front().predicted_us = way.predicted_us;
    else if (more || number <= kFirstPredictions)
      some.push_back(std::move(way));
  }
  return some;
}

std::vector<PlanOptions> ways_of(const Workload& work, const Job& job) {
  std::vector<PlanOptions> all{options_for(work.options, job)};
  if (work.brief) return all;
  for (const Path path : baseline_paths(work.device, job.gemm.op))
    all.push_back(baseline_options(job.options.value_or(work.options), path, work.device));
  return all;
}

int workers_for(int ranks, int workers) { return cpu_machine(ranks, workers).workers; }

Machine machine_for(int ranks, const CommunicatorOptions& options, const GpuFacts* gpus) {
  if (options.device == Device::cuda) {
    Machine machine = gpus == nullptr ? cuda_machine() : cuda_machine(gpus->multiprocessors);
    if (gpus != nullptr) {
      machine.architecture = gpus->architecture;
      machine.memory_bytes_per_s = gpus->memory_bytes_per_s;
      machine.cublas = gpus->cublas;
    }
    machine.tuning = plan::tuning_for(machine, ranks, options.tuning);
    if (options.multicast) machine.multicast = Multicast::usable;  // or ranks say why not
    return machine;
  }
  return cpu_machine(ranks, options.workers, options.link_bytes_per_s, options.link_latency_s);
}

void check_workload(const Workload& work, const Machine& machine) {
  check_ops(work);
  for (const Job& job : work.jobs) {
    for (const std::int64_t m : work.sizes) {
      make_plan(problem_of(job.gemm, m, work.dtype), machine, options_for(work.options, job));
      if (work.device == Device::cuda) candidates_of(work, job, m, machine);
      if (!job.then) continue;
      require(m > 0 && m % job.gemm.tp == 0,
              "--m: got {}, expected a positive multiple of --tp {} for an MLP", m, job.gemm.tp);
      make_plan(problem_of(*job.then, m, work.dtype), machine);
    }
  }
}

std::int64_t memory_needed(const Workload& work, const Machine& machine) {
  double most = 0;
  const std::int64_t m = *std::max_element(work.sizes.begin(), work.sizes.end());
  for (const Job& job : work.jobs) {
    double bytes = job_bytes(work, job, m, machine);
    if (job.then) bytes += job_bytes(work, {*job.then, job.layer}, m, machine);
    most = std::max(most, bytes);
  }
  return static_cast<std::int64_t>(std::min(most, 9e18));
}

void check_memory(const Workload& work, const Machine& machine) {
  if (work.device == Device::cuda) check_gpu_memory(work, machine);
  const auto available = available_memory();
  if (!available) return;
  const std::int64_t needed = memory_needed(work, machine);
  require(static_cast<double>(needed) <= 0.9 * static_cast<double>(*available),
          "memory: these sizes need {}, and {} is available: take a smaller --m (the largest is "
          "{}), a narrower --dtype, or fewer products",
          show_bytes(needed), show_bytes(*available),
          *std::max_element(work.sizes.begin(), work.sizes.end()));
}

}  // namespace tilelace::cli
