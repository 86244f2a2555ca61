// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

#include "api/member.h"
#include "backend/cuda/base/cuda_check.h"

namespace tilelace::gpu_test {

/// An executable graph of the work that `body` enqueues on the member's stream.
class Graph {
 public:
  Graph(Member& member, const std::function<void()>& body) : stream_(member.stream) {
    cudaGraph_t graph = nullptr;
    cuda::check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
    try {
      body();
    } catch (...) {
      cudaStreamEndCapture(stream_, &graph);
      cudaGetLastError();
      if (graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    cuda::check(cudaStreamEndCapture(stream_, &graph), "capture");
    const cudaError_t status = cudaGraphInstantiate(&made_, graph, 0);
    cudaGraphDestroy(graph);
    cuda::check(status, "the graph");
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { cudaGraphExecDestroy(made_); }
  void replay() const { cuda::check(cudaGraphLaunch(made_, stream_), "a replay"); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t made_ = nullptr;
};

}  // namespace tilelace::gpu_test
