// SPDX-License-Identifier: Apache-2.0
// One row of the table: a job at one size, its times, and whether the results were right.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu_times.h"
#include "job.h"

namespace tilelace::cli {

/// What is timed. Values are indices into Row::us and RankPart::samples. `beside`: the GEMM and the
/// collective's traffic run at the same time and do not wait for each other.
enum class Way : std::uint8_t { gemm, collective, unfused, medium, fused, beside };
constexpr std::size_t kWays = 6;

/// When a rank's sample began and ended, in seconds of a clock that all ranks share.
struct Span {
  double begin = 0;
  double end = 0;
};

/// Microseconds that the host spends on an eager call on a GPU.
struct HostTime {
  double us = 0;
  double beside_graphs_us = 0;  ///< time once graphs exist; some calls then launch one kernel more
};

/// A baseline that was timed on GPUs.
struct PeerTime {
  std::string name;
  std::optional<Way> way = {};  ///< the entry of Row::us for this baseline's time, if any
  std::vector<double> us = {};  ///< samples; each is the time of the slowest rank
};

/// What one rank measured for a row; sent between processes as text.
struct RankPart {
  int row = 0;  ///< number of the row (see job_of)
  bool pass = true;
  bool exact = true;
  double error_squares = 0;       ///< sum of squared errors of the elements that this rank checked
  double value_squares = 0;       ///< sum of squares of the same elements of the reference
  std::uint64_t result_hash = 0;  ///< gemm_ar: must be equal on every rank
  std::string complaint;          ///< what was wrong, if anything
  std::optional<HostTime> host;   ///< GPUs: host time of a `fused` call in the fastest round
  std::vector<CallTime>
      candidates;  ///< GPUs: times of the plans of candidates_of; `fused` runs the first of these
  std::vector<PeerTime> peers;
  std::string plans;  ///< MLPs: the plans of both halves
  std::array<std::vector<Span>, kWays> samples;
};

std::string to_text(const RankPart& part);
RankPart part_of(const std::string& text);

/// A plan that was tried, and its time.
struct Candidate {
  plan::CudaWay way;
  double us = 0;
};

struct Row {
  int number = 0;                     ///< number of the row (see job_of)
  std::string layer;                  ///< such as "qkv"; empty without a model
  std::string label;                  ///< the layer's name, with its number if there are several
  std::string op;                     ///< an op, or mlp_rs or mlp_ar
  std::int64_t m = 0, n = 0, k = 0;   ///< extents of the unsharded product
  Plan plan;                          ///< the plan that `fused` ran
  std::string plans;                  ///< MLPs: the plans of both halves
  std::vector<Candidate> candidates;  ///< in the order of plan::Halving::times; the first is best
  std::optional<double> planned_us;   ///< time of the planner's own choice
  std::array<std::optional<double>, kWays> us;
  std::map<std::string, double> peers;  ///< times of baselines by name; join may add our own times
  std::optional<double> spread;         ///< p90 / p10 of the samples of `fused`
  std::optional<HostTime> host;         ///< GPUs: host time of a `fused` call on the slowest rank
  int iterations = 0;
  std::optional<double> error;
  std::optional<bool> exact, verified;
  std::string complaint;

  [[nodiscard]] std::optional<double> time(Way w) const { return us[static_cast<std::size_t>(w)]; }
  /// The longer of two times: the GEMM alone and the collective alone. The fused call can take less
  /// time if other programs used the cores during these two, or if the fused call moves bytes in
  /// another way than the collective.
  [[nodiscard]] std::optional<double> longer_us() const;
  [[nodiscard]] std::optional<double> ect() const;
  /// 1 - (fused - GEMM) / (unfused - GEMM); absent if unfused <= GEMM or a time is absent.
  [[nodiscard]] std::optional<double> efficiency() const;
  [[nodiscard]] std::optional<double> speedup() const;
  [[nodiscard]] bool good() const { return verified.value_or(true) && exact.value_or(true); }
};

/// Row number `row` of the workload, with its names and sizes.
Row named_row(const Workload& work, int row);
/// The same row with its plan, but without times.
Row empty_row(const Workload& work, const Machine& machine, int row);
/// Joins the parts of all ranks. A sample lasts from the first rank's begin to the last rank's end.
/// If baselines have times for an entry of Row::us, the fastest baseline's time replaces our time,
/// which moves to Row::peers. The entry `gemm` keeps our time if our GEMM is the fastest of all.
Row join(const Workload& work, const Machine& machine, const std::vector<RankPart>& parts);

/// How steady the times of CPU ranks are.
struct Steadiness {
  int ranks = 1, workers = 1, cores = 1;
  double spread = 1;  ///< the largest p90 / p10 of `fused`
  int shorter = 0;    ///< rows whose fused call took less than 95 % of Row::longer_us()
};
/// A line that says that times are unsteady, and the likely reason; empty if times are steady.
std::string unsteady_text(const Steadiness& s);

/// The q-th quantile (0 to 1) of values, interpolated; values must not be empty.
double quantile(std::vector<double> values, double q);

}  // namespace tilelace::cli
