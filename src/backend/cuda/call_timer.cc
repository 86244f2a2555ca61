// SPDX-License-Identifier: Apache-2.0
#include "backend/call_timer.h"

#include <cuda_runtime_api.h>

#include <map>

#include "backend/cuda/base/cuda_check.h"
#include "comm/cuda/driver.h"
#include "tilelace/error.h"

namespace tilelace {
namespace {

using cuda::check;

class GraphTimer : public CallTimer {
 public:
  explicit GraphTimer(int device) : device_(device) {
    const comm::DeviceScope scope(device_, "timer");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "a stream");
    check(cudaEventCreate(&begin_), "an event");
    check(cudaEventCreate(&end_), "an event");
  }
  ~GraphTimer() override {
    if (comm::driver_if_alive() == nullptr) return;
    try {
      const comm::DeviceScope scope(device_, "timer");
      drop();
      cudaEventDestroy(begin_);
      cudaEventDestroy(end_);
      cudaStreamDestroy(stream_);
    } catch (const Error&) {  // the context is gone, and with it all of this
    }
  }

  [[nodiscard]] void* stream() const override { return stream_; }

  void capture(std::size_t number, int calls, const std::function<void(int)>& call) override {
    const comm::DeviceScope scope(device_, "timer");
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "a capture");
    try {
      for (int i = 0; i < calls; ++i) call(i);
    } catch (...) {
      cudaStreamEndCapture(stream_, &graph);
      cudaGetLastError();
      if (graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    check(cudaStreamEndCapture(stream_, &graph), "a capture");
    cudaGraphExec_t made = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&made, graph, 0);
    cudaGraphDestroy(graph);
    check(status, "a graph");
    if (const auto before = graphs_.find(number); before != graphs_.end())
      cudaGraphExecDestroy(before->second);
    graphs_[number] = made;
    check(cudaGraphUpload(made, stream_), "a graph");
  }

  void replay(std::size_t number, int load, int timed) override {
    const comm::DeviceScope scope(device_, "timer");
    cudaGraphExec_t const graph = graphs_.at(number);
    for (int i = 0; i < load; ++i) check(cudaGraphLaunch(graph, stream_), "a replay");
    check(cudaEventRecord(begin_, stream_), "an event");
    for (int i = 0; i < timed; ++i) check(cudaGraphLaunch(graph, stream_), "a replay");
    check(cudaEventRecord(end_, stream_), "an event");
  }

  [[nodiscard]] double timed_us() const override {
    const comm::DeviceScope scope(device_, "timer");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_, end_), "the time between two events");
    return static_cast<double>(ms) * 1e3;
  }

  void clear() override {
    const comm::DeviceScope scope(device_, "timer");
    drop();
  }

 private:
  void drop() {
    for (const auto& [number, graph] : graphs_) cudaGraphExecDestroy(graph);
    graphs_.clear();
  }

  int device_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  std::map<std::size_t, cudaGraphExec_t> graphs_;
};

}  // namespace

std::unique_ptr<CallTimer> make_call_timer(int device) {
  return std::make_unique<GraphTimer>(device);
}

}  // namespace tilelace
