// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/backend.h"

#include <algorithm>
#include <utility>

#include "backend/cuda/base/capture_of.h"
#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/op_range.h"
#include "backend/cuda/rank/no_calls.h"
#include "backend/cuda/vendor/cublas.h"
#include "backend/prepared_calls.h"
#include "comm/cuda/capabilities.h"
#include "comm/cuda/driver.h"
#include "comm/deadline.h"
#include "comm/multicast_permit.h"
#include "core/architecture.h"
#include "core/check.h"
#include "plan/base/schedules.h"
#include "plan/gpu/gpu_plan.h"
#include "plan/gpu/kernel_choice.h"
#include "tilelace/op_table.h"

namespace tilelace::cuda {
namespace {

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

Machine machine_of(const comm::Capabilities& c, const CommunicatorOptions& options) {
  const auto architecture = architecture_of(c.compute_major, c.compute_minor);
  require(
      architecture.has_value(),
      "communicator: device {}: got {} (sm_{}{}), expected {}, for which this build has kernels",
      c.device, c.name, c.compute_major, c.compute_minor, devices_with_kernels());
  const int budget = options.max_workers > 0 ? options.max_workers : c.sm_count;
  Machine machine = cuda_machine(std::min(c.sm_count, budget));
  machine.architecture = *architecture;
  machine.memory_bytes_per_s = c.memory_bytes_per_s;
  machine.cublas = cublas_version() != 0;
  machine.tuning = options.tuning;
  if (options.multicast)
    machine.multicast = !comm::MulticastPermit::environment_allows() ? Multicast::not_allowed
                        : c.multicast                                ? Multicast::usable
                                                                     : Multicast::not_supported;
  return machine;
}

/// Before prepare nothing waits for peers.
void await_products(cudaStream_t stream, double bound_s) {
  const comm::Deadline deadline("synchronize", bound_s);
  await_stream(stream, [&] {
    if (deadline.passed())
      raise(ErrorKind::timeout, "synchronize: the stream did not finish within {:g} s", bound_s);
  });
}

}  // namespace

GpuBackend::GpuBackend(comm::Group& group, const CommunicatorOptions& options)
    : group_(group), options_(options), device_(options.device_index) {
  const comm::Capabilities c = comm::query_capabilities(device_);
  uuid_ = c.uuid;
  name_ = c.name;
  machine_ = machine_of(c, options);
  shares_device_ = machine_.shared_device = machine_.multiprocessors < c.sm_count;
  const comm::DeviceScope scope(device_, "communicator");
  workspace_ = std::make_unique<GemmWorkspace>(machine_.architecture);
}

GpuBackend::~GpuBackend() {
  if (comm::driver_if_alive() == nullptr) return;
  try {
    const comm::DeviceScope scope(device_, "communicator");
    cudaDeviceSynchronize();
    collectives_.reset();
    ops_.reset();
    retired_.clear();
    workspace_.reset();
  } catch (const Error&) {  // the context is gone, and with it all that would be given back
  }
}

const comm::LinkRow& GpuBackend::link_to(int peer) const {
  require(!links_.empty(), "communicator: links are not known before prepare: call prepare first");
  return *links_[static_cast<std::size_t>(peer)];
}

bool GpuBackend::is_captured(void* stream) const {
  const comm::DeviceScope scope(device_, "communicator");
  return is_kept_by_capture(stream_of(stream)) || capture_of(stream_of(stream)) != 0;
}

bool GpuBackend::has_kernel(const Plan& plan, DType dtype) const {
  return plan.kernel == nullptr || cuda::has_kernel(plan::gemm_of(plan.kernel->way), dtype);
}

void GpuBackend::fall_out(const Error& error) {
  if (error.kind() != ErrorKind::usage || !out_of_step_.empty()) return;
  out_of_step_ = error.what();
}

void GpuBackend::require_ready(std::string_view op) {
  require(ops_ != nullptr, "{}: called before prepare: call prepare first", op);
  // Kernels would wait for it to their bound.
  for (int p = 0; p < group_.ranks(); ++p)
    if (p != group_.rank() && group_.has_left(p))
      raise(ErrorKind::peer, "{}: peer rank {} has left the group", op, p);
  if (out_of_step_.empty()) {
    try {
      ops_->calls.throw_if_failed();
      throw_if_graphs_failed();
    } catch (const Error& e) {
      fall_out(e);
      throw;
    }
  }
  require(out_of_step_.empty(),
          "{}: ranks made different calls earlier ({}): all ranks must call prepare again "
          "(in Python: tilelace.recover)",
          op, out_of_step_);
}

void GpuBackend::throw_if_graphs_failed() {
  for (Retired& r : retired_) {
    if (!r.in_step) continue;
    try {
      r.ops->calls.throw_if_failed();
    } catch (const Error& e) {
      // Said once: what is prepared next is in step again, its calls are others'.
      if (e.kind() == ErrorKind::usage) r.in_step = false;
      throw;
    }
  }
}

bool GpuBackend::owns(void* stream) const {
  if (stream == last_stream_) return true;
  // To ask a stream that is being captured breaks the capture.
  if (capture_of(stream_of(stream)) != 0) return true;
  int device = device_;
  const cudaError_t status = cudaStreamGetDevice(stream_of(stream), &device);
  if (status != cudaSuccess) cudaGetLastError();
  return status == cudaSuccess && device == device_;
}

void GpuBackend::require_own_stream(std::string_view op, void* stream) const {
  require(owns(stream), "{}: stream: got one of another device, expected one of device {}", op,
          device_);
}

void GpuBackend::check_tensors(const Problem& problem, const Operands& operands, Part part) const {
  const auto op = name_of(problem.op);
  const auto all = [&](std::string_view name, std::span<const TensorView> list) {
    for (std::size_t i = 0; i < list.size(); ++i)
      require_on_device(op, {name, i}, list[i], device_);
  };
  require_own_stream(op, operands.stream);
  require_on_device(op, "a", operands.input, device_);
  require_on_device(op, "gathered", operands.gathered, device_);
  require_on_device(op, "residual", operands.residual, device_);
  if (part == Part::collective && row_of(problem.op).gathers) return;
  all("weight", operands.weights);
  all("bias", operands.bias);
  all("out", operands.out);
}

void GpuBackend::run(const Problem& problem, const Plan& plan, const Operands& operands,
                     Part part) {
  const OpRange range(name_of(problem.op).data());
  const comm::DeviceScope scope(device_, name_of(problem.op));
  require_ready(name_of(problem.op));
  try {
    check_tensors(problem, operands, part);
  } catch (const Error& e) {
    if (part != Part::gemm) refuse(e.what(), operands.stream);
    throw;
  }
  if (part == Part::gemm) return enqueue_gemm(problem, operands);
  last_stream_ = operands.stream;
  try {
    enqueue(problem, plan, operands);
  } catch (const Error& e) {
    // A call that is not legal was not begun; half a call may be: peers shall not wait for its
    // rest.
    if (e.kind() == ErrorKind::usage) {
      refuse(e.what(), operands.stream);
    } else {
      const auto self = static_cast<std::uint16_t>(group_.rank());
      group_.abort({static_cast<std::uint8_t>(ErrorKind::system), self, self});
    }
    throw;
  }
}

void GpuBackend::enqueue(const Problem& problem, const Plan& plan, const Operands& operands) {
  CallTensors tensors{operands, !prepared(operands.weights)};
  if (row_of(problem.op).shares && plan.path == Path::fused)
    tensors.reachable = reachable(operands.out.front());
  ops_->run(problem, plan, tensors);
}

bool GpuBackend::prepared(std::span<const TensorView> weights) const {
  return std::all_of(weights.begin(), weights.end(), [&](const TensorView& w) {
    return std::find(weights_.begin(), weights_.end(), w) != weights_.end();
  });
}

const std::vector<plan::GemmPlan>& GpuBackend::gemm_plans(const Problem& problem) {
  return gemm_plans_.get(problem, [&] {
    std::vector<plan::GemmPlan> plans;
    for (std::size_t i = 0; i < problem.outputs(); ++i)
      plans.push_back(plan::gemm_alone(problem, i, machine_));
    return plans;
  });
}

void GpuBackend::enqueue_gemm(const Problem& problem, const Operands& operands) {
  if (problem.m == 0) return;
  const auto& plans = gemm_plans(problem);
  const auto bias = [&](std::size_t i) {
    return operands.bias.empty() ? nullptr : operands.bias[i].data;
  };
  for (std::size_t i = 0; i < problem.outputs(); ++i) {
    const plan::GemmProblem gemm = plan::product_of(problem, i, problem.m);
    GemmTensors tensors{operands.input.data, operands.weights[i].data, bias(i),
                        operands.out[i].data, problem.activation};
    tensors.weights_wait = !prepared(operands.weights);
    if (gemm.gated) {
      tensors.up = operands.weights[1].data;
      tensors.up_bias = bias(1);
    }
    plan::GemmPlan plan = plans[i];
    if (shares_device_) plan = plan::beside_others(plan, machine_.multiprocessors);
    GemmCall(plan, gemm, tensors, workspace_->scratch()).launch(stream_of(operands.stream));
  }
}

void GpuBackend::refuse(std::string_view reason, void* stream) {
  if (!out_of_step_.empty()) return;
  // Before anything was prepared the peers are about to prepare, or refuse as well.
  if (ops_ == nullptr) return agree_on_calls(group_, "prepare", {}, reason, options_.timeout_s);
  const comm::DeviceScope scope(device_, "refused call");
  // Where nothing can be enqueued: behind the calls before it all the same.
  if (is_kept_by_capture(stream_of(stream)) || !owns(stream)) stream = last_stream_;
  // A capture executes nothing: there is nobody to tell.
  if (capture_of(stream_of(stream)) != 0) return;
  ops_->calls.admit("refused call", kRefusalHash, Op{}, stream_of(stream));
}

void GpuBackend::synchronize(void* stream, double bound_s) {
  const comm::DeviceScope scope(device_, "synchronize");
  require_own_stream("synchronize", stream);
  require(capture_of(stream_of(stream)) == 0,
          "synchronize: the stream is being captured: synchronize after the capture");
  workspace_->look(stream_of(stream));
  if (collectives_ != nullptr && collectives_out_of_step_.empty()) {
    try {
      collectives_->calls.finish(stream_of(stream), bound_s);
    } catch (const Error& e) {
      if (e.kind() == ErrorKind::usage) collectives_out_of_step_ = e.what();
      throw;
    }
  }
  if (ops_ == nullptr) {
    await_products(stream_of(stream), bound_s);
  } else {
    try {
      ops_->calls.finish(stream_of(stream), bound_s);
      throw_if_graphs_failed();
    } catch (const Error& e) {
      fall_out(e);
      throw;
    }
  }
  if (workspace_->failed())
    raise(ErrorKind::system,
          "gemm: a kernel waited too long for a partial sum of split-k: make a new communicator "
          "(in Python: call tilelace.leave on every rank)");
}

}  // namespace tilelace::cuda

namespace tilelace {

int cuda_device_of(int local_rank) { return comm::device_of(local_rank); }

std::unique_ptr<Backend> make_cuda_backend(comm::Group& group, const CommunicatorOptions& options) {
  const int count = comm::device_count();
  require(options.device_index >= 0 && options.device_index < count,
          "communicator: rank {} needs device {}, but this process sees {} device{}: each rank "
          "needs a GPU of its own",
          group.rank(), options.device_index, count, count == 1 ? "" : "s");
  return std::make_unique<cuda::GpuBackend>(group, options);
}

}  // namespace tilelace
