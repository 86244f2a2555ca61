// SPDX-License-Identifier: Apache-2.0
// What the GPU calls of one rank on one communicator share, whatever their ops: symmetric memory in
// two slots, the count of calls, waits.
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
#include "comm/cuda/device_memory.h"
#include "plan/gpu/staging.h"
#include "tilelace/collectives.h"
#include "tilelace/plan.h"

namespace tilelace::cuda {

using plan::SlotNeeds;

/// A call's op, or collective: by number in records of waits, by name in texts.
struct CallName {
  std::string_view text;
  std::uint32_t number = 0;  ///< 0: none

  CallName(std::string_view what, Op op) : text(what), number(static_cast<std::uint32_t>(op) + 1) {}
  explicit CallName(Collective c)
      : text(row_of(c).name), number(kFirstCollective + static_cast<std::uint32_t>(c)) {}
  static CallName all_reduce_norm();
  /// Empty: of no such number.
  static std::string_view of(std::uint32_t number);

 private:
  CallName(std::string_view what, std::uint32_t of) : text(what), number(of) {}

  static constexpr std::uint32_t kFirstCollective = 0x10000;
  static constexpr std::uint32_t kNorm = 0x20000;
};

/// What else stands on a rank's device, and what its calls may ask for.
struct RankShare {
  /// That this communicator's kernels may fill; 0: all of the device. With fewer, calls of other
  /// communicators that wait for peers may stand beside its own.
  int multiprocessors = 0;
  bool nccl = false;       ///< plans of transport nccl will come
  bool hands = false;      ///< gemm_rs: plans whose partials are handed to owners will come
  bool multicast = false;  ///< memory is mapped for the switch, too
  int architecture = 0;    ///< of the device (core/architecture.h): plans and kernels are of it

  bool operator==(const RankShare&) const = default;
};

/// All ranks make the same calls in the same order, from one thread each, on one stream each.
class RankCalls {
 public:
  /// Collective; `group` must outlive it. `load` loads every kernel that calls launch: where ranks
  /// share a device that must be done before any of them calls. Errors: usage, system, peer,
  /// timeout.
  RankCalls(comm::Group& group, int device, const SlotNeeds& needs, double timeout_s,
            const RankShare& share, void (*load)(int architecture));
  RankCalls(const RankCalls&) = delete;
  RankCalls& operator=(const RankCalls&) = delete;
  /// Ends this rank's waits first.
  ~RankCalls();

  /// The slot of the next call that is enqueued, of which nothing is in the stream yet; an align
  /// goes there where the slot needs one (CallSlots). Errors: usage (an earlier call failed),
  /// system.
  unsigned begin_call(std::string_view name, Op op, cudaStream_t stream) {
    return begin_call(CallName(name, op), stream);
  }
  unsigned begin_call(const CallName& name, cudaStream_t stream);
  /// Parameters of a call's kernel, as if it were the only one.
  [[nodiscard]] CallParams params(unsigned slot, std::uint32_t hash, Op op) const {
    return params(slot, hash, CallName({}, op));
  }
  [[nodiscard]] CallParams params(unsigned slot, std::uint32_t hash, const CallName& name) const;
  /// Whether other communicators have a place on the device.
  [[nodiscard]] bool shares_device() const { return multiprocessors_ < all_multiprocessors_; }
  [[nodiscard]] int multiprocessors() const { return multiprocessors_; }
  /// The plan as it may run here: of a share only, beside others; places for `left` CTAs less.
  /// Errors: usage (a product that may find no place on a share, plan/gemm/share.h; a plan of
  /// another architecture).
  [[nodiscard]] plan::GemmPlan fit(const plan::GemmPlan& gemm, int left = 0) const;
  /// As many of so many CTAs that wait for peers as may stand here.
  [[nodiscard]] int fit_ctas(int ctas) const;
  /// How such a kernel begins; `early`: it may begin under the one before it, where no others are.
  [[nodiscard]] Start start(int ctas, bool early) const;
  /// A call without rows: the ranks only agree. Errors: usage, system.
  void admit(std::string_view name, std::uint32_t hash, Op op, cudaStream_t stream);
  [[nodiscard]] std::size_t data_at(unsigned slot) const { return flags_at(slot) + flags_bytes_; }
  [[nodiscard]] std::size_t flags_at(unsigned slot) const;
  /// No call but those that count writes there.
  [[nodiscard]] std::size_t counts_at(unsigned slot) const {
    return flags_at(2) + slot * counts_bytes_;
  }
  /// Nothing but words that carry their call's number is written there.
  [[nodiscard]] std::size_t lines_at(unsigned slot) const {
    return counts_at(2) + slot * lines_bytes_;
  }
  /// In the own memory: how often each count of the slot has been used.
  [[nodiscard]] comm::Flag* uses(unsigned slot) const {
    return uses_ + slot * (counts_bytes_ / sizeof(comm::Flag));
  }
  /// The word that a copy engine sends as the number of the call in this slot.
  [[nodiscard]] const comm::Flag* next(unsigned slot) const { return counter_->next + slot; }
  /// A word of this device for one stream of copies that wait.
  [[nodiscard]] comm::Flag* granted() const { return reinterpret_cast<comm::Flag*>(counter_ + 1); }

  /// Throws what went wrong in kernels so far; waits for nothing.
  void throw_if_failed();
  /// Waits until the work in `stream` is done, at most `timeout_s`; throws what went wrong in
  /// kernels (timeout, peer, usage for ranks that disagree).
  void finish(cudaStream_t stream, double timeout_s);

  /// Error: usage (a slot has less).
  void require_room(std::string_view op, const SlotNeeds& needs) const;

  /// Whether any call was captured.
  [[nodiscard]] bool captured() const { return slots_.graphs(); }
  [[nodiscard]] WaitControl& control() { return control_; }
  [[nodiscard]] comm::Group& group() const { return group_; }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] const comm::DeviceMemory& memory() const { return *memory_; }
  [[nodiscard]] const GemmScratch& scratch() const { return workspace_.scratch(); }
  [[nodiscard]] std::size_t flags() const { return flags_bytes_ / sizeof(comm::Flag); }
  [[nodiscard]] std::size_t data_bytes() const { return data_bytes_; }
  /// On each rank, both slots.
  [[nodiscard]] std::size_t staging_bytes() const { return memory_->bytes(); }

 private:
  /// Makes what no call has written look like no call's. Collective.
  void clear_lines(double timeout_s);
  /// The op of the wait that failed, or of the last call.
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
  comm::Flag* uses_ = nullptr;      // likewise; null where no call counts
  CallSlots slots_;
  std::string_view last_ = "calls";
  bool failed_ = false;
};

}  // namespace tilelace::cuda
