// SPDX-License-Identifier: Apache-2.0
// The only interface between op/ and the backends.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/moe_passes.h"
#include "comm/group.h"
#include "comm/link_table.h"
#include "tilelace/all_reduce_norm.h"
#include "tilelace/collectives.h"
#include "tilelace/communicator.h"
#include "tilelace/error.h"
#include "tilelace/ops.h"
#include "tilelace/plan.h"
#include "tilelace/tensor.h"

namespace tilelace {

/// Which part of a call runs: the whole call, only its GEMM, or only its collective.
enum class Part : std::uint8_t { whole, gemm, collective };

/// What prepare gets for one problem: the problem with its largest m, plan options, and weights.
struct PreparedCall {
  Problem problem;
  PlanOptions options;
  std::vector<TensorView> weights;
};

/// Whether a prepare replaces earlier preparations (`goes`) or keeps them (`stays`).
enum class Before : std::uint8_t { goes, stays };

/// Memory with an equally large part on each rank; every rank can reach all parts. Rank r's part is
/// at base + r * stride.
struct ReachableMemory {
  std::shared_ptr<void> owner;
  std::byte* base = nullptr;
  std::size_t stride = 0;
  std::size_t bytes = 0;
};

/// Memory for a rank's tensors. Destruction does not wait for peers.
class RankMemory {
 public:
  RankMemory() = default;
  RankMemory(const RankMemory&) = delete;
  RankMemory& operator=(const RankMemory&) = delete;
  virtual ~RankMemory() = default;
  [[nodiscard]] virtual std::byte* data() const = 0;
  /// Copies between this memory and the host, in either direction; blocking. Error: system.
  virtual void copy(void* to, const void* from, std::size_t bytes) const = 0;
};

/// For a collective inside an outer call: what ranks must agree on in addition to the collective.
struct Within {
  std::string_view name;  ///< name of the outer call
  std::string words;
  /// Null, or a word in the rank's memory that must be equal on all ranks. It is read in stream
  /// order and enters the hash that ranks compare: no rank writes a result if the words differ.
  const std::int32_t* word = nullptr;
  /// Null, or a word that is nonzero if this rank's call is wrong. (CPU ranks ignore this pointer:
  /// they check the word before the call.)
  const std::int32_t* wrong = nullptr;
};

class Backend {
 public:
  Backend() = default;
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  [[nodiscard]] virtual Machine machine() const = 0;
  /// Collective: allocates staging for calls of up to the problems' m, packs the weights and starts
  /// the workers. If `refusal` is not empty, this rank only tells its peers why it cannot prepare,
  /// and the peers get an error.
  virtual void prepare(std::span<const PreparedCall>, Before, std::string_view refusal) = 0;
  /// Collective, except Part::gemm. Before a rank throws a usage error, it tells its peers.
  /// GPU ranks only enqueue the call; the next call or synchronize throws errors of its kernels.
  virtual void run(const Problem&, const Plan&, const Operands&, Part) = 0;
  /// Collective: allocates the staging of collectives. If it is ready, local: does nothing, and
  /// tells nobody a refusal. `refusal`: as in prepare.
  virtual void prepare_collectives(std::string_view refusal) = 0;
  /// Collective, as run. Checks the arguments; prepares collectives on the first call. Errors: as
  /// run.
  virtual void collect(Collective, const CollectiveArgs&, const CollectiveOptions&) = 0;
  /// As collect, for a collective inside another call.
  virtual void collect_within(const Within& call, Collective, const CollectiveArgs&) = 0;
  /// The passes of mixtures of experts (backend/moe_passes.h), none of which waits for peers.
  virtual MoePasses& moe_passes() = 0;
  /// Describes how collect would run this collective. Local. Errors: usage.
  [[nodiscard]] virtual std::string describe(Collective, const CollectiveArgs&,
                                             const CollectiveOptions&) const = 0;
  /// As collect.
  virtual void all_reduce_norm(const AllReduceNormArgs&, const CollectiveOptions&) = 0;
  [[nodiscard]] virtual std::string describe(const AllReduceNormArgs&,
                                             const CollectiveOptions&) const = 0;
  /// Replaces a call that this rank cannot make: the peers get the reason instead of waiting.
  virtual void refuse(std::string_view reason, void* stream) = 0;
  /// As refuse, but for collectives, which on GPUs have slots and call numbers of their own.
  virtual void refuse_collective(std::string_view reason, void* stream) { refuse(reason, stream); }
  /// Waits at most bound_s seconds for the work in the stream, and throws the work's errors.
  virtual void synchronize(void* stream, double bound_s) = 0;
  /// Collective. Errors: usage (sizes differ), system, peer, timeout.
  virtual ReachableMemory allocate(std::size_t bytes) = 0;
  /// Makes zero-filled memory, aligned to 256 bytes. Local. Error: system.
  virtual std::unique_ptr<RankMemory> make_memory(std::size_t bytes) = 0;
  /// What the checked mode of CPU ranks has found, one text per finding; empty if the mode is off.
  [[nodiscard]] virtual std::vector<std::string> findings() const = 0;
  /// The link to a peer. Error: usage (GPU ranks before the first prepare, which chooses links).
  [[nodiscard]] virtual const comm::LinkRow& link_to(int peer) const = 0;

  // For GPU ranks only.

  /// Uses this table for plans from now on. The table must fit the machine. Local.
  virtual void take_tuning(const std::shared_ptr<const plan::TuningTable>& /*table*/) {}
  /// The device's name, from the driver.
  [[nodiscard]] virtual std::string device_name() const { return ""; }
  /// Whether `stream` or a stream that blocks it is captured. Errors: usage (bad capture), system.
  [[nodiscard]] virtual bool is_captured(void* /*stream*/) const { return false; }
  /// Whether this build has the kernels of a plan.
  [[nodiscard]] virtual bool has_kernel(const Plan& /*plan*/, DType /*dtype*/) const {
    return true;
  }
};

/// State that the checked ranks of a process share; null if the checked mode is off.
class CheckedGroup;
std::shared_ptr<CheckedGroup> make_checked_group(int ranks, int workers);

/// The group must outlive the backend.
std::unique_ptr<Backend> make_cpu_backend(comm::Group&, const CommunicatorOptions&,
                                          std::shared_ptr<CheckedGroup> = nullptr);

/// The passes of a mixture of experts on the calling thread alone, without a group.
std::unique_ptr<MoePasses> make_cpu_moe_passes();
/// The passes on the GPU that has the tensors. Errors: usage (a build without CUDA).
std::unique_ptr<MoePasses> make_gpu_moe_passes();

/// The device of a rank whose options name no device: the only one that this process sees, or else
/// number `local_rank`. Errors: usage (no such device, a build without CUDA), system (no driver).
int cuda_device_of(int local_rank);

/// The backend of a rank whose tensors are on options.device_index. The group must outlive the
/// backend.
/// Errors: usage (no such device, an unsupported architecture, a build without CUDA), system.
std::unique_ptr<Backend> make_cuda_backend(comm::Group&, const CommunicatorOptions&);

}  // namespace tilelace
