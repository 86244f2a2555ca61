// SPDX-License-Identifier: Apache-2.0
// The host's part of waits on the device. It keeps the words that waits use, and can end waits.
#pragma once
#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "backend/cuda/device/record.h"
#include "comm/cuda/host_memory.h"
#include "comm/group.h"
#include "tilelace/error.h"

namespace tilelace::cuda {

/// The error of an expired wait. It says which rank did not come, which rank waited, and where.
Error expired_error(const WaitRecord& record, std::string_view op, int rank, double bound_s);

/// Waits until the work in `stream` is done, and meanwhile calls `look`, which may throw. Error:
/// system (the device failed).
void await_stream(cudaStream_t stream, const std::function<void()>& look);

/// One rank's abort words and record. Calls come from one thread at a time, except where noted.
class WaitControl {
 public:
  /// For kernels of `device`; must be made before they run. With a `group` (null: none),
  /// which must outlive this object, waits also end when the group is aborted or a peer dies.
  /// Local. Errors: usage (timeout), system.
  WaitControl(int device, int rank, comm::Group* group, double timeout_s);
  /// Ends this rank's waits first, so that no kernel here still waits for a peer.
  ~WaitControl();
  WaitControl(const WaitControl&) = delete;
  WaitControl& operator=(const WaitControl&) = delete;

  /// The context for a kernel's parameters. `op` is copied into records.
  [[nodiscard]] WaitContext context(std::uint32_t op = 0) const;

  /// The timeout of waits in kernels launched (or captured) from now on. Error: usage.
  void set_timeout(double timeout_s);
  [[nodiscard]] double timeout_s() const { return timeout_s_; }
  /// Whether kernels can read the group's abort word. If not, only wait() tells them of an abort.
  [[nodiscard]] bool watches_group() const { return group_stop_ != nullptr; }

  /// Ends all waits of this rank's kernels within a few ms. Never blocks. Any thread may call it.
  void stop(comm::AbortReason reason) noexcept;

  /// Whether this rank's waits were stopped or one of them has failed. Any thread may call it.
  [[nodiscard]] bool stopped() const;

  /// The record of the rank's first failed wait, if there is one.
  [[nodiscard]] std::optional<WaitRecord> record() const;

  /// Throws the Error of the record, of the group or of stop(), if there is one. A timeout in the
  /// record also aborts the group, so that other ranks stop waiting.
  void throw_if_failed(std::string_view op);

  /// Waits until the work in `stream` is done. After `timeout_s`, ends the waits of its kernels.
  /// Error: system (the device failed, or the work did not end even when stopped).
  void wait(cudaStream_t stream, std::string_view op, double timeout_s);
  /// Calls wait, then throw_if_failed. Errors: those of both.
  void finish(cudaStream_t stream, std::string_view op, double timeout_s);

  /// Clears the abort words and the record. Call it only while no kernel of this rank runs. An
  /// aborted group stays aborted. Error: system.
  void reset();

 private:
  /// Passes the group's reason on to kernels that cannot read it themselves.
  void relay() noexcept;

  [[nodiscard]] WaitPage& page() const { return *reinterpret_cast<WaitPage*>(host_.host()); }
  void watch_group();

  int device_;
  int rank_;
  comm::Group* group_;
  double timeout_s_ = 0;
  comm::HostMemory host_;             // a WaitPage
  comm::AbortWord* stop_ = nullptr;   // device memory
  std::shared_ptr<void> registered_;  // the page of the group's abort word
  const comm::AbortWord* group_stop_ = nullptr;
};

}  // namespace tilelace::cuda
