// SPDX-License-Identifier: Apache-2.0
// Where launches write events in builds with TILELACE_TRACE. Other builds record nothing.
#pragma once
#include <string>
#include <vector>

#include "backend/cuda/device/trace.h"

namespace tilelace::cuda {

/// Events of one launch, by CTA; each CTA's events are in the order in which it wrote them.
struct TracedLaunch {
  std::string kernel;  ///< "product" (a GEMM) or "push" (sends rows)
  std::vector<std::vector<TraceEvent>> ctas;
};

#ifdef TILELACE_TRACE
/// Memory for the events of launches on the current device. From record_launches(&recorder) on,
/// each launch by this thread, captured or not, takes the next part until record_launches(nullptr).
class TraceRecorder {
 public:
  /// For `launches` launches, each with `ctas` CTAs of fewer than `each` events. Error: system.
  TraceRecorder(int launches, int ctas, int each);
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;
  ~TraceRecorder();

  /// The next launch's part. Error: usage (all parts are taken).
  TraceSink next(const char* kernel);
  /// Events of each launch's last run; waits for the device. Errors: system, usage (a CTA wrote
  /// `each` events or more).
  [[nodiscard]] std::vector<TracedLaunch> read() const;

 private:
  int launches_, ctas_, each_;
  TraceEvent* events_ = nullptr;
  std::vector<std::string> kernels_;
};

void record_launches(TraceRecorder* recorder);

/// The sink for a kernel that this thread is about to launch.
TraceSink trace_sink(const char* kernel);
#define TILELACE_TRACE_TO(params, kernel) (params).sink = trace_sink(kernel)
#else
#define TILELACE_TRACE_TO(params, kernel) static_cast<void>(0)
#endif

}  // namespace tilelace::cuda
