// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/base/trace.h"

#include <cuda_runtime_api.h>

#include "backend/cuda/base/cuda_check.h"
#include "core/check.h"

namespace tilelace::cuda {
namespace {

thread_local TraceRecorder* here = nullptr;

/// A CTA's events, without those that an earlier run left behind.
std::vector<TraceEvent> written(const TraceEvent* events, int each) {
  std::vector<TraceEvent> found;
  for (int i = 0; i < each && events[i].ns != 0 && events[i].ns >= events[0].ns; ++i)
    found.push_back(events[i]);
  require(std::ssize(found) < each,
          "trace: a CTA recorded {} events or more: give TraceRecorder room for more", each);
  return found;
}

}  // namespace

TraceRecorder::TraceRecorder(int launches, int ctas, int each)
    : launches_(launches), ctas_(ctas), each_(each) {
  const std::size_t bytes = static_cast<std::size_t>(launches) *
                            static_cast<std::size_t>(ctas * each) * sizeof(TraceEvent);
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "memory for a trace");
  events_ = static_cast<TraceEvent*>(memory);
  check(cudaMemset(memory, 0, bytes), "memory for a trace");
  check(cudaDeviceSynchronize(), "memory for a trace");
}

TraceRecorder::~TraceRecorder() {
  if (here == this) here = nullptr;
  cudaFree(events_);
}

TraceSink TraceRecorder::next(const char* kernel) {
  require(std::ssize(kernels_) < launches_,
          "trace: more than {} launches: give TraceRecorder more launches", launches_);
  const auto at = kernels_.size() * static_cast<std::size_t>(ctas_ * each_);
  kernels_.emplace_back(kernel);
  return {events_ + at, each_, ctas_};
}

std::vector<TracedLaunch> TraceRecorder::read() const {
  check(cudaDeviceSynchronize(), "a trace");
  std::vector<TraceEvent> events(static_cast<std::size_t>(ctas_ * each_));
  std::vector<TracedLaunch> launches;
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    check(cudaMemcpy(events.data(), events_ + i * events.size(), events.size() * sizeof events[0],
                     cudaMemcpyDeviceToHost),
          "reading a trace");
    TracedLaunch launch{kernels_[i], {}};
    for (int c = 0; c < ctas_; ++c) {
      auto of_cta = written(events.data() + c * each_, each_);
      if (!of_cta.empty()) launch.ctas.push_back(std::move(of_cta));
    }
    launches.push_back(std::move(launch));
  }
  return launches;
}

void record_launches(TraceRecorder* recorder) { here = recorder; }

TraceSink trace_sink(const char* kernel) {
  return here == nullptr ? TraceSink{nullptr, 0, 0} : here->next(kernel);
}

}  // namespace tilelace::cuda
