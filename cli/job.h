// SPDX-License-Identifier: Apache-2.0
// What a command is asked to run: which products, in which sizes, with which weights.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu.h"
#include "model/shard.h"
#include "plan/gpu/gpu_ways.h"
#include "sizes.h"
#include "tilelace/communicator.h"

namespace tilelace::cli {

/// One GEMM of one layer, or an MLP.
struct Job {
  model::LayerGemm gemm;
  int layer = 0;
  /// The second product of an MLP: gemm_rs after an ag_gemm, or gemm_ar after a GEMM whose input
  /// every rank has in full.
  std::optional<model::LayerGemm> then = {};
  /// The job's own options. They replace the workload's options if --plan was given several times.
  /// `given`: the values of the job's own options as text.
  std::optional<PlanOptions> options = {};
  std::string given = {};
};

struct Workload {
  std::string model;  ///< empty: sizes were given without a model
  model::ModelConfig config;
  model::WeightSource source = model::WeightSource::random(1);
  std::vector<Job> jobs;
  std::vector<std::int64_t> sizes;  ///< the values of m
  int ranks = 1;
  DType dtype{};
  PlanOptions options;
  std::string plan;    ///< GPUs: a printed plan, which replaces options; empty: none
  int iterations = 0;  ///< samples; 0: 10 on GPUs, 3 to 40 on CPUs (as many as fit 1.2 s)
  int warmup = 2;
  bool check = true;
  /// GPUs: the number of plans of each kind that are timed. Plans with the best predictions are
  /// taken first. If this is 0 and `kinds` is empty, only the planner's choice is timed.
  int candidates = 0;
  std::vector<std::string> kinds;      ///< kinds to time; empty: all kinds the planner may choose
  std::vector<std::string> baselines;  ///< GPUs: the baselines to time (baselines.h)
  bool several_layers = false;
  /// GPUs: only candidates are timed, and only the fastest is checked.
  bool tunes = false;
  /// GPUs: times only `fused` and baselines that do the whole call (product and collective), and
  /// skips the check with integers. Ranks prepare for `fused` alone, one m at a time.
  bool brief = false;
  bool force = false;      ///< with `tunes`: also times on GPUs that are throttled or shared
  double budget_s = 0;     ///< seconds after which no further row is begun; 0: no limit
  std::vector<bool> skip;  ///< entry i is true: row i (see job_of) is left out; empty: all rows run
  Device device = Device::cpu;
  GpuFacts gpus;  ///< cuda only
};

/// A product without a model. n (of each weight) and k are the unsharded extents.
model::LayerGemm plain_gemm(Op op, const std::vector<std::int64_t>& n, std::int64_t k, int ranks);
constexpr std::array<std::string_view, 2> kMlpNames{"mlp_rs", "mlp_ar"};
/// An MLP with a gate: k is the width of its input and result, n the width in between.
Job plain_mlp(std::string_view name, std::int64_t n, std::int64_t k, int ranks);
/// The job's name: "mlp_rs", "mlp_ar", or the product's op.
std::string_view name_of(const Job& job);

std::int64_t sum_of(const std::vector<std::int64_t>& values);

/// A row is a job at one size. Its number is (job's index) * (number of sizes) + (size's index).
const Job& job_of(const Workload& work, int row);
std::int64_t m_of(const Workload& work, int row);

Problem problem_of(const model::LayerGemm& gemm, std::int64_t m, DType dtype);
/// The options that apply to this job; one list of options may suit several ops. Only gemm_ar has
/// blocks; only gemm_rs and gemm_ar have partials. check_workload refuses options that no job has.
PlanOptions options_for(const PlanOptions& options, const Job& job);
/// Options for a plan with another path. For CPU ranks, the tile and the type of partials are those
/// of `options`; the planner chooses the rest.
PlanOptions baseline_options(const PlanOptions& options, Path path, Device device);

/// The paths that are timed in addition to the default one.
std::vector<Path> baseline_paths(Device device, Op op);
/// Options of each plan to time. The first entry has the job's own options; their plan is reported
/// as `fused`. The last entry is for the unfused plan. A brief workload has a single entry.
std::vector<PlanOptions> ways_of(const Workload& work, const Job& job);

/// Plans to time; the fastest becomes `fused`. First comes the planner's choice, then plans with
/// the best predictions, overall and of each kind. A plan from the user is the only one to time.
/// Empty if no candidates are asked for. Errors: usage (an unknown kind, a plan without a tile).
std::vector<plan::CudaWay> candidates_of(const Workload& work, const Job& job, std::int64_t m,
                                         const Machine& machine);
/// Parses a list of the words cublas, nccl, nccl_registered, nccl_window and beside. The baseline
/// cublas is timed even if the list lacks it. Errors: usage (an unknown word).
std::vector<std::string> parse_baselines(std::string_view text);
/// For collectives without a product: as parse_baselines, but the only words are nccl,
/// nccl_registered and nccl_window. Errors: usage (an unknown word).
std::vector<std::string> parse_buffers(std::string_view text);

/// Applies the --plan options; the workload's jobs and device must be set. A single --plan is for
/// all jobs. With several --plan options each job gets one copy per option. On GPU ranks a single
/// --plan may also be a printed plan. Errors: usage.
void take_plans(const std::vector<std::string>& plans, Workload& work);

/// The machine that a group with these options would plan for; no group is made. `gpus`: the GPUs
/// of this machine; null: assumes H200s.
Machine machine_for(int ranks, const CommunicatorOptions& options, const GpuFacts* gpus = nullptr);
/// Number of workers of a rank: `workers` or, if `workers` is 0, max(1, cores / ranks).
int workers_for(int ranks, int workers);

/// Checks every problem and plan of the workload. If the options `blocks` or `partials` are given,
/// some job must have that option. Throws the first usage error.
void check_workload(const Workload& work, const Machine& machine);

/// Bytes that all ranks of this machine need together for the job that needs most.
std::int64_t memory_needed(const Workload& work, const Machine& machine);
/// Throws a usage error if this machine or its GPUs have too little memory for the workload.
void check_memory(const Workload& work, const Machine& machine);

}  // namespace tilelace::cli
