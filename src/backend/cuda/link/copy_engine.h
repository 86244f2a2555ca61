// SPDX-License-Identifier: Apache-2.0
// Copy engines in ag_gemm's copy role, which sends rows. The role's loop runs on the host, and its
// steps (verbs) enqueue copies on a stream that forks from the call's stream and later joins it.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device/record.h"
#include "comm/signal.h"
#include "schedule/ag_gemm.h"

namespace tilelace::cuda {

/// What a copy needs in order to wait for a flag.
struct CopyWaits {
  WaitContext context;
  comm::Flag* granted = nullptr;  ///< a word in device memory, see await_flag.h
};

/// The stream of a rank's copies. A call enqueues, in this order:
///   1. if needed, work that sets the epoch word to the call's number (ag_gemm needs none)
///   2. fork(stream)
///   3. copies, waits, signals    (run_copy with GatherCopyVerbs)
///   4. on the call's stream, the kernel that waits for rows. It comes after the sends; otherwise,
///      with few hardware queues, it could block sends that the peers wait for.
///   5. join(stream)              after this, the epoch word may change again
/// All of these can be captured in a CUDA graph. A captured copy has a fixed slot, but call c must
/// use slot c mod 2; the caller (CallSlots) ensures that the two agree. A flag is raised by a copy
/// that follows the copy of the data on the same stream. CUDA does not promise that polling kernels
/// see two copies of a stream in order; gpu_litmus checks that they do. A wait is a kernel of one
/// warp, which begins when the copies before it are done. By then the kernel of step 4 may run
/// already. So that kernel must leave an SM free, or leave room for a warp on an SM. Calls come
/// from one thread at a time.
class CopyEngine {
 public:
  /// `epoch`: a word in this device's memory; signals send its value. Error: system.
  CopyEngine(int device, const comm::Flag* epoch);
  ~CopyEngine();
  CopyEngine(const CopyEngine&) = delete;
  CopyEngine& operator=(const CopyEngine&) = delete;

  /// Sends that are enqueued from now on run after all earlier work in `stream`.
  void fork(cudaStream_t stream);
  /// Later work in `stream` runs after all sends.
  void join(cudaStream_t stream);

  /// Copies rows of `width` bytes; pitches are in bytes.
  void copy_rows(std::byte* to, std::int64_t to_pitch, const std::byte* from,
                 std::int64_t from_pitch, std::int64_t width, std::int64_t rows);
  /// From now on, signals send this word's value, and waits wait for that value.
  void carry(const comm::Flag* epoch) { epoch_ = carried_ = epoch; }
  /// Makes later copies run after this rank's flag has reached the call's epoch. If the wait fails,
  /// the copies still run, but later signals raise no flag.
  void wait(const comm::Flag* flag, const WaitPlace& place, const CopyWaits& waits);
  /// Raises the flag to the call's epoch. A peer that sees the flag also sees all copies so far.
  void signal(comm::Flag* flag);

  [[nodiscard]] cudaStream_t stream() const { return stream_; }

 private:
  const comm::Flag* epoch_;
  const comm::Flag* carried_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t forked_ = nullptr;
  cudaEvent_t joined_ = nullptr;
};

/// Where the data of an ag_gemm call is. Rank r's memory begins at base + r * stride.
struct GatherPlace {
  std::byte* base = nullptr;
  std::size_t stride = 0;
  std::size_t flags = 0;       ///< offset of this slot's flags
  std::size_t rows = 0;        ///< offset of this slot's gathered operand
  std::int64_t row_pitch = 0;  ///< bytes from row to row in the slot
  const std::byte* input = nullptr;
  std::int64_t input_pitch = 0;
  std::int64_t row_bytes = 0;
  const CopyWaits* waits = nullptr;  ///< null: copies must not wait for flags
};

/// Throws a usage error if copy engines cannot run this schedule's copy role. They cannot if the
/// transport is store, if the role also copies gathered rows to the caller, or if copies wait for
/// flags (transport pull, or a route other than mesh) and `may_wait` is false.
void require_copies(const schedule::AgGemm& s, bool may_wait);

/// Verbs of run_copy for schedules that require_copies accepts.
class GatherCopyVerbs {
 public:
  GatherCopyVerbs(CopyEngine& engine, const schedule::AgGemm& s, const GatherPlace& place)
      : engine_(engine), s_(s), place_(place) {
    require_copies(s, place.waits != nullptr);
  }

  /// Does nothing, since the call's first kernel sends the headers.
  void signal_header(int /*peer*/) {}
  /// Does nothing, since copies write no results and a kernel of the call waits for the headers.
  void admit() {}
  /// Sends own rows from the input, and rows of other ranks from this rank's slot.
  void push(const schedule::GatherTransfer& t);
  void stage(const schedule::GatherTransfer& t);
  void pull(const schedule::GatherTransfer& t);
  void signal(int peer, schedule::Index flag);
  void wait(schedule::Index flag);
  [[noreturn]] void deliver(const schedule::GatherTransfer&);

 private:
  [[nodiscard]] std::byte* row_at(int rank, schedule::Index row) const {
    return at(rank) + place_.rows + row * place_.row_pitch;
  }
  [[nodiscard]] comm::Flag* flag_at(int rank, schedule::Index flag) const {
    return reinterpret_cast<comm::Flag*>(at(rank) + place_.flags) + flag;
  }
  void copy_own(std::byte* to, const schedule::GatherTransfer& t);
  [[nodiscard]] std::byte* at(int rank) const {
    return place_.base + static_cast<std::size_t>(rank) * place_.stride;
  }

  CopyEngine& engine_;
  const schedule::AgGemm& s_;
  GatherPlace place_;
};

}  // namespace tilelace::cuda
