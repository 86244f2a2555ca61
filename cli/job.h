// SPDX-License-Identifier: Apache-2.0
// What a command is asked to run: the products, their sizes, and where their numbers come from.
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
  /// The second product of an MLP: gemm_rs behind an ag_gemm, gemm_ar behind a product of rows that
  /// are whole on every rank.
  std::optional<model::LayerGemm> then = {};
  /// One of several --plan, instead of the workload's options, and the values that it gives.
  std::optional<PlanOptions> options = {};
  std::string given = {};
};

struct Workload {
  std::string model;  ///< empty: sizes without a model
  model::ModelConfig config;
  model::WeightSource source = model::WeightSource::random(1);
  std::vector<Job> jobs;
  std::vector<std::int64_t> sizes;  ///< the values of m
  int ranks = 1;
  DType dtype{};
  PlanOptions options;
  std::string plan;    ///< GPUs: as printed, instead of options; empty: none
  int iterations = 0;  ///< 0: as many as fit the time a row gets
  int warmup = 2;
  bool check = true;
  /// GPUs: plans of each kind that are timed, best prediction first; 0 and no kinds: the planner's
  /// choice alone.
  int candidates = 0;
  std::vector<std::string> kinds;      ///< those alone; empty: every kind
  std::vector<std::string> baselines;  ///< GPUs: what else is timed (baselines.h)
  bool several_layers = false;
  /// GPUs: candidates alone are timed, and the fastest checked; nothing beside it.
  bool tunes = false;
  /// GPUs: `fused` and what peers take for a whole call alone are timed, and checked once; ranks
  /// prepare for that alone, for each m anew.
  bool brief = false;
  bool force = false;      ///< tunes: also on GPUs that are throttled or shared
  double budget_s = 0;     ///< rows that begin later are left out; 0: none are
  std::vector<bool> skip;  ///< rows that are, by number (job * sizes + size); empty: none
  Device device = Device::cpu;
  GpuFacts gpus;  ///< cuda only
};

/// The product without a model: n, of each weight, and k are those of the unsharded one.
model::LayerGemm plain_gemm(Op op, const std::vector<std::int64_t>& n, std::int64_t k, int ranks);
constexpr std::array<std::string_view, 2> kMlpNames{"mlp_rs", "mlp_ar"};
/// An MLP with a gate: k is the width of its input and result, n of what is between.
Job plain_mlp(std::string_view name, std::int64_t n, std::int64_t k, int ranks);
/// "mlp_rs", "mlp_ar", or the product's op.
std::string_view name_of(const Job& job);

std::int64_t sum_of(const std::vector<std::int64_t>& values);

/// Rows are numbered job * sizes + size.
const Job& job_of(const Workload& work, int row);
std::int64_t m_of(const Workload& work, int row);

Problem problem_of(const model::LayerGemm& gemm, std::int64_t m, DType dtype);
/// The overrides that apply to this product, so that one list does for several ops: blocks are
/// gemm_ar's alone, partials are of sums. check_workload refuses what applies to none.
PlanOptions options_for(const PlanOptions& options, const Job& job);
/// The same on another path, with that path's own chunks.
PlanOptions baseline_options(const PlanOptions& options, Path path, Device device);

/// The other paths that are timed beside the default one.
std::vector<Path> baseline_paths(Device device, Op op);
/// The default plan first: what `fused` is. The unfused one comes last; a brief workload has the
/// first alone.
std::vector<PlanOptions> ways_of(const Workload& work, const Job& job);

/// What `fused` is the fastest of: the planner's choice, then the first predictions of each kind;
/// or the plan that was given. Empty where the workload asks for none. Errors: usage (an unknown
/// kind, a plan that says nothing).
std::vector<plan::CudaWay> candidates_of(const Workload& work, const Job& job, std::int64_t m,
                                         const Machine& machine);
/// cublas (always there), nccl, nccl_registered, nccl_window, beside. Errors: usage (another word).
std::vector<std::string> parse_baselines(std::string_view text);
/// Of these the kinds of NCCL's buffers, for collectives by themselves. Errors: usage (another).
std::vector<std::string> parse_buffers(std::string_view text);

/// Each --plan, once the workload's jobs and device are known: one is for all jobs, of several each
/// job gets one row each. GPU ranks: or one plan as it is printed. Errors: usage.
void take_plans(const std::vector<std::string>& plans, Workload& work);

/// What the backend says of itself for such a group, without making one.
/// `gpus`: those that are there; null: H200s.
Machine machine_for(int ranks, const CommunicatorOptions& options, const GpuFacts* gpus = nullptr);
/// 0: cores / ranks, at least 1.
int workers_for(int ranks, int workers);

/// Checks every problem and plan of the workload, and that each override applies to one; throws
/// the first usage error.
void check_workload(const Workload& work, const Machine& machine);

/// Bytes that all ranks of this machine need together at the worst moment.
std::int64_t memory_needed(const Workload& work, const Machine& machine);
/// Throws a usage error when that is more than this machine has.
void check_memory(const Workload& work, const Machine& machine);

}  // namespace tilelace::cli
