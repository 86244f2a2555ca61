// SPDX-License-Identifier: Apache-2.0
// One rank as users of the public API see it: a communicator, a stream, tensors on its GPU.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "device_place.h"
#include "tilelace/tilelace.h"

namespace tilelace::gpu_test {

struct Member {
  Communicator* comm = nullptr;
  int device = 0;
  cudaStream_t stream = nullptr;
  double timeout_s = 20;  ///< option of the communicator

  [[nodiscard]] int rank() const { return comm->rank(); }
  [[nodiscard]] int ranks() const { return comm->size(); }
};

/// What a check found wrong; empty: nothing.
using Finding = std::string;
using Body = std::function<Finding(Member&)>;

/// Runs a body with a rank's device and stream. Errors become findings.
Finding with_member(Communicator& comm, int device, double timeout_s, const Body& body);

/// Runs body on a thread for every rank, rank r on device r. Returns the first finding that is not
/// a peer error, else the first finding. `max_workers`: communicator option; 0: the whole device.
Finding on_threads(int ranks, double timeout_s, const Body& body, int max_workers);

/// The error that a call threw; none if it threw nothing.
std::optional<Error> thrown(const std::function<void()>& call);
/// Returns a finding unless the call throws an error of this kind that contains this text.
Finding expect_error(const std::string& what, ErrorKind kind, const std::string& text,
                     const std::function<void()>& call);

/// Allocates tensors as users do. `reachable`: results are in symmetric memory (collective).
class Buffers {
 protected:
  Buffers(Member& member, bool reachable);

  DevicePlace memory_;

 private:
  std::vector<DeviceBuffer> own_;
  std::vector<SymmetricBuffer> reachable_;
};

/// The operands of a call on a member's stream. `exact`: operands are small integers, and results
/// are compared bit for bit.
class CallOperands : Buffers, public test::Operands {
 public:
  CallOperands(Member& member, const Problem& problem, bool exact, bool reachable = false);
  virtual ~CallOperands() = default;

  [[nodiscard]] Preparation preparation(const PlanOptions& options = {}) const {
    return {problem(), views().weights, options};
  }
  /// Prepares calls with these options; replaces earlier preparations. Collective.
  void prepare(const std::vector<PlanOptions>& options = {PlanOptions{}}) const;
  virtual void call(const PlanOptions& options = {}) const = 0;
  /// Makes `count` calls, each with new inputs, and returns the first finding.
  Finding calls(std::uint64_t count, const PlanOptions& options = {});
  Finding one_call(std::uint64_t seed, const PlanOptions& options = {});

 protected:
  Member& member_;
};

/// The tensors of an ag_gemm call.
class Tensors : public CallOperands {
 public:
  using Args = AgGemmArgs;
  using CallOperands::CallOperands;
  [[nodiscard]] AgGemmArgs args() const;
  /// Arguments for the GEMM alone, whose input is the gathered operand.
  [[nodiscard]] AgGemmArgs product_args() const;
  void call(const AgGemmArgs& args, const PlanOptions& options) const {
    ag_gemm(*member_.comm, args, options);
  }
  void call(const PlanOptions& options = {}) const override { call(args(), options); }
};

/// The problem of an ag_gemm of these sizes, in bf16.
Problem problem_of(int ranks, std::int64_t m, std::vector<std::int64_t> n, std::int64_t k);
PlanOptions path_of(Path path);
/// The numbers of rows of unequal shards. The first is the largest, and the last is 0.
std::vector<std::int64_t> uneven_rows(std::int64_t m, int ranks);

}  // namespace tilelace::gpu_test
