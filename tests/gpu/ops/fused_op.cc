// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_op.h"

#include "core/check.h"

namespace tilelace::gpu_test {
namespace {

class Gather : public FusedOp {
 public:
  Gather(comm::Group& group, int device, const std::vector<Problem>& problems, double timeout_s)
      : op_(group, device, problems, timeout_s) {}
  void run(const Problem& problem, const OpPlan& plan, const OpTensors& t,
           cudaStream_t stream) override {
    op_.run(problem, std::get<plan::AgGemmPlan>(plan), t, stream);
  }
  void finish(cudaStream_t stream, double timeout_s) override { op_.finish(stream, timeout_s); }

 private:
  cuda::AgGemm op_;
};

class Scatter : public FusedOp {
 public:
  Scatter(comm::Group& group, int device, const std::vector<Problem>& problems, double timeout_s)
      : op_(group, device, problems, timeout_s) {}
  void run(const Problem& problem, const OpPlan& plan, const OpTensors& t,
           cudaStream_t stream) override {
    const void* bias = t.biases.empty() ? nullptr : t.biases.front();
    op_.run(problem, std::get<plan::GemmRsPlan>(plan), {t.a, t.weights.at(0), bias, t.outs.at(0)},
            stream);
  }
  void finish(cudaStream_t stream, double timeout_s) override { op_.finish(stream, timeout_s); }

 private:
  cuda::GemmRs op_;
};

}  // namespace

std::unique_ptr<FusedOp> make_op(comm::Group& group, int device,
                                 const std::vector<Problem>& problems, double timeout_s) {
  require(!problems.empty(), "problems: got none, expected at least one");
  if (problems.front().op == Op::gemm_rs)
    return std::make_unique<Scatter>(group, device, problems, timeout_s);
  return std::make_unique<Gather>(group, device, problems, timeout_s);
}

}  // namespace tilelace::gpu_test
