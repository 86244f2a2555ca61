// SPDX-License-Identifier: Apache-2.0
// prepare of GPU ranks: they meet, agree, and make their staging.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <utility>

#include "backend/cuda/backend.h"
#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/op_range.h"
#include "backend/cuda/link/join_devices.h"
#include "backend/cuda/rank/no_calls.h"
#include "backend/prepared_calls.h"
#include "comm/cuda/driver.h"
#include "core/check.h"
#include "plan/ways/copied_partials_way.h"
#include "tilelace/op_table.h"
#include "tilelace/transport_table.h"

namespace tilelace::cuda {
namespace {

/// A capture, of any stream of this thread, executes nothing that could be waited for.
void await_device() {
  const cudaError_t status = cudaDeviceSynchronize();
  if (status != cudaErrorStreamCaptureUnsupported && status != cudaErrorStreamCaptureImplicit)
    return check(status, "prepare: earlier GPU work");
  cudaGetLastError();
  raise(
      ErrorKind::usage,
      "prepare: cannot run while a stream is captured: run the same call once before the capture");
}

/// What memory needs for multicast is what the transport needs.
Error said_of_multimem(const Error& e, std::span<const PreparedCall> calls) {
  constexpr std::string_view kMemory = "allocate_device: multicast needs ";
  const std::string_view text = e.what();
  if (!text.starts_with(kMemory)) return e;
  const auto asks = std::find_if(calls.begin(), calls.end(), [](const PreparedCall& c) {
    return row_of(c.options.transport).needs_multicast();
  });
  return Error(e.kind(), fmt::format("{}: transport multimem needs {}",
                                     asks == calls.end() ? "prepare" : name_of(asks->problem.op),
                                     text.substr(kMemory.size())));
}

}  // namespace

/// A call that only preparations make.
void GpuBackend::meet() {
  ops_->calls.admit("prepare", kPreparationHash, Op{}, nullptr);
  ops_->calls.finish(nullptr, 2 * options_.timeout_s);
}

/// Ranks in step meet as in a call: one that makes another call, or refuses one, is told so and
/// tells, where it would else wait on the device and the others on the host.
void GpuBackend::meet_for_preparation() {
  if (ops_ == nullptr || !out_of_step_.empty()) return;
  await_device();
  try {
    ops_->calls.throw_if_failed();
    throw_if_graphs_failed();
  } catch (const Error& e) {
    return fall_out(e);  // on every rank: of a call that all have made
  }
  try {
    meet();
  } catch (const Error& e) {
    fall_out(e);
    throw;
  }
}

/// Graphs go on with the staging and the count of calls that they were captured with.
void GpuBackend::retire() {
  if (ops_ != nullptr && ops_->calls.captured())
    retired_.push_back({std::move(ops_), out_of_step_.empty()});
  ops_.reset();
  out_of_step_.clear();
}

std::string GpuBackend::described(std::span<const PreparedCall> calls) const {
  std::string text;
  for (const PreparedCall& c : calls) {
    for (std::size_t i = 0; i < c.weights.size(); ++i)
      require_on_device("prepare", {"weight", i}, c.weights[i], device_);
    text += fmt::format("{}; {}\n", fmt::streamed(c.problem),
                        fmt::streamed(make_plan(c.problem, machine_, c.options)));
  }
  return text + fmt::format("{}", fmt::streamed(machine_));
}

/// What is wrong here says more than that the peers, who may be in a call, do something else.
void GpuBackend::refuse_preparation(std::string_view reason) {
  try {
    meet_for_preparation();
    agree_on_calls(group_, "prepare", {}, reason, options_.timeout_s);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::usage) throw;
  }
}

RankShare GpuBackend::share_of(std::span<const PreparedCall> calls, RankShare before) const {
  RankShare share = before;
  share.multiprocessors = machine_.multiprocessors;
  share.architecture = machine_.architecture;
  for (const PreparedCall& c : calls) {
    // Taken where asked for only.
    share.nccl = share.nccl || row_of(c.options.transport).needs_nccl();
    share.copied = share.copied || plan::copies_partials(c.problem.op, c.options.path);
    share.multicast = share.multicast || row_of(c.options.transport).needs_multicast();
  }
  return share;
}

void GpuBackend::prepare(std::span<const PreparedCall> calls, Before before,
                         std::string_view refusal) {
  const OpRange range("prepare");
  const comm::DeviceScope scope(device_, "prepare");
  if (!refusal.empty()) return refuse_preparation(refusal);
  std::string mine;
  try {
    mine = described(calls);
  } catch (const Error& e) {
    refuse_preparation(e.what());
    throw;
  }
  meet_for_preparation();
  const bool more = before == Before::stays;
  const RankShare share = share_of(calls, more ? share_ : RankShare{});
  std::vector<Problem> problems;
  for (const PreparedCall& c : calls) problems.push_back(c.problem);
  SlotNeeds needs = RankOps::needs_of(problems, group_.ranks(), share);
  if (more) needs = needs.with(needs_);
  const bool fits =
      more && ops_ != nullptr && out_of_step_.empty() && needs == needs_ && share == share_;
  agree_on_calls(group_, "prepare",
                 fmt::format("{}{}{}", mine, more ? ", more" : "", fits ? " of these" : ""), {},
                 options_.timeout_s);
  if (ops_ == nullptr) links_ = join_devices(group_, device_, uuid_, options_.timeout_s);
  if (!more) weights_.clear();
  for (const PreparedCall& c : calls)
    weights_.insert(weights_.end(), c.weights.begin(), c.weights.end());
  if (fits) return;
  // What was prepared before may still be in use, here and by peers.
  await_device();
  group_.all_gather("prepare", options_.timeout_s);
  retire();
  try {
    ops_ = std::make_unique<RankOps>(group_, device_, needs, options_.timeout_s, share);
  } catch (const Error& e) {
    throw said_of_multimem(e, calls);
  }
  needs_ = needs;
  share_ = share;
  group_.all_gather("prepared", options_.timeout_s);  // no header may arrive before this
}

}  // namespace tilelace::cuda
