// SPDX-License-Identifier: Apache-2.0
// The one seam between op/ and the backends.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/group.h"
#include "tilelace/communicator.h"
#include "tilelace/plan.h"
#include "tilelace/tensor.h"

namespace tilelace {

/// The tensors of a call, checked by op/. `input` is a or x; `out` has Problem::outputs() entries.
struct Operands {
  TensorView input;
  std::span<const TensorView> weights;
  std::span<const TensorView> bias;
  std::span<const TensorView> out;
  TensorView gathered;
};

/// What of a call runs: all of it, its product on operands that are all there, or its collective.
enum class Part : std::uint8_t { whole, gemm, collective };

/// A problem, the plan of its largest m, its weights; as prepare was asked for it.
struct PreparedCall {
  Problem problem;
  PlanOptions options;
  std::vector<TensorView> weights;
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual Machine machine() const = 0;
  /// Collective: staging for all calls up to their m, packed weights, workers.
  /// With a refusal this rank only tells its peers why it cannot prepare; they get an error.
  virtual void prepare(std::span<const PreparedCall>, std::string_view refusal) = 0;
  /// Collective, except Part::gemm. Throws Error; a usage error leaves all ranks in step.
  virtual void run(const Problem&, const Plan&, const Operands&, Part) = 0;
  /// Takes the place of a call that this rank cannot make: the peers learn why instead of waiting.
  virtual void refuse(std::string_view reason) = 0;
  /// What the checked mode found.
  [[nodiscard]] virtual std::vector<std::string> findings() const = 0;
};

/// State that checked ranks of one process share; null when the mode is off.
class CheckedGroup;
std::shared_ptr<CheckedGroup> make_checked_group(int ranks, int workers);

/// The group must outlive the backend.
std::unique_ptr<Backend> make_cpu_backend(comm::Group&, const CommunicatorOptions&,
                                          std::shared_ptr<CheckedGroup> = nullptr);

}  // namespace tilelace
