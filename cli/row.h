// SPDX-License-Identifier: Apache-2.0
// One row of the table: a product at one size, what it took, and whether it was right.
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

/// What is timed, in the order of the samples. beside: product and traffic at once, neither waiting
/// for the other.
enum class Way : std::uint8_t { gemm, collective, unfused, medium, fused, beside };
constexpr std::size_t kWays = 6;

/// When a rank began and ended, on the machine's clock, in seconds.
struct Span {
  double begin = 0;
  double end = 0;
};

/// Microseconds that the host is busy with an eager call on a GPU.
struct HostTime {
  double us = 0;
  double beside_graphs_us = 0;  ///< once calls were captured: every other one aligns counts first
};

/// What else was timed on GPUs.
struct PeerTime {
  std::string name;
  std::optional<Way> way = {};  ///< that it is one of
  std::vector<double> us = {};  ///< a sample each, the slowest rank's
};

/// What one rank brings to a row; travels between processes as text.
struct RankPart {
  int row = 0;  ///< job * sizes + size
  bool pass = true;
  bool exact = true;
  double error_squares = 0;          ///< of this rank's checked elements
  double value_squares = 0;          ///< of their reference
  std::uint64_t result_hash = 0;     ///< gemm_ar: must be the same on every rank
  std::string complaint;             ///< what was wrong, if anything
  std::optional<HostTime> host;      ///< GPUs: of a call of `fused`, the fastest round
  std::vector<CallTime> candidates;  ///< GPUs: of candidates_of, fastest first; `fused` ran it
  std::vector<PeerTime> peers;
  std::string plans;  ///< of an MLP: both halves'
  std::array<std::vector<Span>, kWays> samples;
};

std::string to_text(const RankPart& part);
RankPart part_of(const std::string& text);

/// A plan that was tried, and what it took.
struct Candidate {
  plan::CudaWay way;
  double us = 0;
};

struct Row {
  int number = 0;                     ///< job * sizes + size
  std::string layer;                  ///< qkv, ...; empty without a model
  std::string label;                  ///< with the layer's number where there are several
  std::string op;                     ///< or mlp_rs, mlp_ar
  std::int64_t m = 0, n = 0, k = 0;   ///< of the unsharded product
  Plan plan;                          ///< the one that `fused` ran
  std::string plans;                  ///< of an MLP: both halves'
  std::vector<Candidate> candidates;  ///< fastest first
  std::optional<double> planned_us;   ///< of the planner's own choice among them
  std::array<std::optional<double>, kWays> us;
  std::map<std::string, double> peers;  ///< what else was timed
  std::optional<double> spread;         ///< p90 / p10 of fused
  std::optional<HostTime> host;         ///< GPUs: of a call of fused, the slowest rank's
  int iterations = 0;
  std::optional<double> error;
  std::optional<bool> exact, verified;
  std::string complaint;

  [[nodiscard]] std::optional<double> time(Way w) const { return us[static_cast<std::size_t>(w)]; }
  /// The longer of GEMM and collective, each by itself. No bound: on cores that something else
  /// uses, or where the call moves bytes another way than the collective, the call may take less.
  [[nodiscard]] std::optional<double> longer_us() const;
  [[nodiscard]] std::optional<double> ect() const;
  /// 1 - ECT / (unfused - GEMM); absent where unfused <= GEMM.
  [[nodiscard]] std::optional<double> efficiency() const;
  [[nodiscard]] std::optional<double> speedup() const;
  [[nodiscard]] bool good() const { return verified.value_or(true) && exact.value_or(true); }
};

/// Row number `row` of the workload: what it is called, and its sizes.
Row named_row(const Workload& work, int row);
/// The same with its plan, without its figures.
Row empty_row(const Workload& work, const Machine& machine, int row);
/// Joins what all ranks brought. Where peers are one of its ways the product's figure is the
/// fastest of all, collective's and unfused's are theirs, and the own ones stand among the peers. A
/// sample lasts from the first rank's begin to the last one's end.
Row join(const Workload& work, const Machine& machine, const std::vector<RankPart>& parts);

/// What is known of the times of CPU ranks.
struct Steadiness {
  int ranks = 1, workers = 1, cores = 1;
  double spread = 1;  ///< the largest p90 / p10 of fused
  int shorter = 0;    ///< rows whose fused call took less than its GEMM or its collective alone
};
/// A line that says that times are unsteady and why; empty where they are not.
std::string unsteady_text(const Steadiness& s);

/// The q-th quantile (0 to 1) of values, interpolated; values must not be empty.
double quantile(std::vector<double> values, double q);

}  // namespace tilelace::cli
