// SPDX-License-Identifier: Apache-2.0
// What all GPU calls of a rank on one communicator share, whatever the op: symmetric memory in two
// slots, the count of calls, and the words of waits.
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "backend/cuda/device/call_params.h"
#include "backend/cuda/device/start.h"
#include "backend/cuda/gemm/gemm_call.h"
#include "backend/cuda/rank/call_slots.h"
#include "backend/cuda/rank/wait_control.h"
#include "backend/cuda/vendor/cublas.h"
#include "comm/cuda/device_memory.h"
#include "plan/gpu/staging.h"
#include "tilelace/collectives.h"
#include "tilelace/plan.h"

namespace tilelace::cuda {

using plan::SlotNeeds;

/// Names the op or collective of a call: by a number in records of waits, by a text in errors.
struct CallName {
  std::string_view text;
  std::uint32_t number = 0;  ///< 0: no op or collective

  CallName(std::string_view what, Op op) : text(what), number(static_cast<std::uint32_t>(op) + 1) {}
  explicit CallName(Collective c)
      : text(row_of(c).name), number(kFirstCollective + static_cast<std::uint32_t>(c)) {}
  static CallName all_reduce_norm();
  /// The name of a mixture of experts' second half, if it ends with this collective.
  static CallName of_experts(Collective);
  /// The name that belongs to this number; empty for 0.
  static std::string_view of(std::uint32_t number);

 private:
  CallName(std::string_view what, std::uint32_t of) : text(what), number(of) {}

  static constexpr std::uint32_t kFirstCollective = 0x10000;
  static constexpr std::uint32_t kNorm = 0x20000;
  static constexpr std::uint32_t kExperts = 0x30000;
};

/// What a communicator may use of its device, and what its plans may need.
struct RankShare {
  /// SMs that this communicator's kernels may use; 0: all. Calls of other communicators may wait
  /// on the other SMs at the same time.
  int multiprocessors = 0;
  bool nccl = false;       ///< there may be plans of transport nccl
  bool copied = false;     ///< gemm_rs: there may be plans of copied_partials.h
  bool multicast = false;  ///< memory is also mapped for multicast
  int architecture = 0;    ///< the device's row in core/architecture.h

  bool operator==(const RankShare&) const = default;
};

/// All ranks make the same calls in the same order. Each makes them from one thread, on one stream.
class RankCalls {
 public:
  /// Collective; `group` must outlive this object. `load` loads all kernels that calls launch. If
  /// ranks share a device, all kernels must be loaded before any rank makes a call. Errors: usage,
  /// system, peer, timeout.
  RankCalls(comm::Group& group, int device, const SlotNeeds& needs, double timeout_s,
            const RankShare& share, void (*load)(int architecture));
  RankCalls(const RankCalls&) = delete;
  RankCalls& operator=(const RankCalls&) = delete;
  /// First ends this rank's waits, so that the rank's kernels end.
  ~RankCalls();

  /// Returns the slot of the next call; call it before anything of that call is enqueued. If
  /// CallSlots asks for an align (a kernel, see there), first enqueues the align. Errors: usage (an
  /// earlier call failed), system.
  unsigned begin_call(std::string_view name, Op op, cudaStream_t stream) {
    return begin_call(CallName(name, op), stream);
  }
  unsigned begin_call(const CallName& name, cudaStream_t stream);
  /// Parameters for a call of only one kernel, so `first` and `last` are true.
  [[nodiscard]] CallParams params(unsigned slot, std::uint32_t hash, Op op) const {
    return params(slot, hash, CallName({}, op));
  }
  [[nodiscard]] CallParams params(unsigned slot, std::uint32_t hash, const CallName& name) const;
  /// Whether other communicators may run on the same device.
  [[nodiscard]] bool shares_device() const { return multiprocessors_ < all_multiprocessors_; }
  [[nodiscard]] int multiprocessors() const { return multiprocessors_; }
  /// Returns the plan. On a share of the device, the plan is cut to the share's SMs, less two SMs
  /// for each of `left` other CTAs. Errors: usage (a GEMM that might not fit a share, see
  /// plan/gemm/share.h; a plan of another architecture).
  [[nodiscard]] plan::GemmPlan fit(const plan::GemmPlan& gemm, int left = 0) const;
  /// Limits `ctas`, a number of CTAs that wait for peers, to what fits the communicator's SMs.
  [[nodiscard]] int fit_ctas(int ctas) const;
  /// How a kernel of `ctas` CTAs starts. `early`: may overlap the previous kernel (not on a share).
  [[nodiscard]] Start start(int ctas, bool early) const;
  /// Enqueues a call without rows, for ranks to check that they agree. Errors: usage, system.
  void admit(std::string_view name, std::uint32_t hash, Op op, cudaStream_t stream);
  [[nodiscard]] std::size_t data_at(unsigned slot) const { return flags_at(slot) + flags_bytes_; }
  [[nodiscard]] std::size_t flags_at(unsigned slot) const;
  /// Offset of the slot's counts (see uses). Only calls that use counts write there.
  [[nodiscard]] std::size_t counts_at(unsigned slot) const {
    return flags_at(2) + slot * counts_bytes_;
  }
  /// Offset of the slot's lines, whose words carry a call's number. Nothing else is written there.
  [[nodiscard]] std::size_t lines_at(unsigned slot) const {
    return counts_at(2) + slot * lines_bytes_;
  }
  /// How often each count of the slot was used; in this rank's memory.
  [[nodiscard]] comm::Flag* uses(unsigned slot) const {
    return uses_ + slot * (counts_bytes_ / sizeof(comm::Flag));
  }
  /// The word with the number of the slot's next call. Copy engines copy the word to raise flags.
  [[nodiscard]] const comm::Flag* next(unsigned slot) const { return counter_->next + slot; }
  /// The word that is set by waits between copies of a stream (CopyWaits::granted).
  [[nodiscard]] comm::Flag* granted() const { return reinterpret_cast<comm::Flag*>(counter_ + 1); }

  /// Throws errors that kernels have reported so far; waits for nothing.
  void throw_if_failed();
  /// Waits until the work in `stream` is done, at most `timeout_s`; throws errors of its kernels
  /// (timeout, peer, usage for ranks that disagree).
  void finish(cudaStream_t stream, double timeout_s);

  /// Checks that a slot has room for `needs`. Error: usage.
  void require_room(std::string_view op, const SlotNeeds& needs) const;

  /// Whether any call was captured.
  [[nodiscard]] bool captured() const { return slots_.graphs(); }
  [[nodiscard]] WaitControl& control() { return control_; }
  [[nodiscard]] comm::Group& group() const { return group_; }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] const comm::DeviceMemory& memory() const { return *memory_; }
  [[nodiscard]] const GemmScratch& scratch() const { return workspace_.scratch(); }
  /// The memory of scratch().partials, as the workspace of a product by cuBLASLt.
  [[nodiscard]] CublasRoom room() const {
    return {workspace_.scratch().partials, workspace_.partial_bytes()};
  }
  [[nodiscard]] std::size_t flags() const { return flags_bytes_ / sizeof(comm::Flag); }
  [[nodiscard]] std::size_t data_bytes() const { return data_bytes_; }
  /// Bytes of the symmetric memory, with both slots, on each rank.
  [[nodiscard]] std::size_t staging_bytes() const { return memory_->bytes(); }

 private:
  /// Clears lines, so that old words do not look like words of a call. Collective.
  void clear_lines(double timeout_s);
  /// Name of the op whose wait failed or, if no wait failed, of the last call.
  [[nodiscard]] std::string_view name() const;

  comm::Group& group_;
  int device_;
  int all_multiprocessors_ = 0, multiprocessors_ = 0;
  int architecture_;
  WaitControl control_;
  GemmWorkspace workspace_;
  std::size_t flags_bytes_, data_bytes_, counts_bytes_, lines_bytes_;
  std::shared_ptr<comm::DeviceMemory> memory_;
  CallCounter* counter_ = nullptr;  // device memory
  comm::Flag* uses_ = nullptr;      // in device memory; null: there are no counts
  CallSlots slots_;
  std::string_view last_ = "calls";
  bool failed_ = false;
};

}  // namespace tilelace::cuda
