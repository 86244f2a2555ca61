// SPDX-License-Identifier: Apache-2.0
// Collectives of GPU ranks: staging of their own, made by the first.
#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/backend.h"
#include "backend/cuda/base/capture_of.h"
#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/op_range.h"
#include "backend/cuda/link/join_devices.h"
#include "backend/cuda/rank/no_calls.h"
#include "backend/prepared_calls.h"
#include "comm/cuda/driver.h"
#include "core/check.h"

namespace tilelace::cuda {
namespace {

constexpr std::string_view kPrepare = "prepare_collectives";

/// What parcels span as one row of some type, for checks of memory.
TensorView row_of_bytes(const void* data, const std::vector<plan::Parcel>& parcels) {
  plan::Index end = 0;
  for (const plan::Parcel& p : parcels) end = std::max(end, p.at + p.bytes);
  const DTypeRow& type = kDTypes[0];
  const plan::Index elements = schedule::ceil_div(end, static_cast<plan::Index>(type.bytes));
  return {const_cast<void*>(data), type.type, elements == 0 ? 0 : 1, elements, elements};
}

}  // namespace

struct GpuBackend::CheckedCollective {
  plan::CollectiveCall call;
  plan::CollectivePlan plan;
  CollectiveTensors tensors;
};

GpuBackend::CheckedCollective GpuBackend::checked(Collective collective, const CollectiveArgs& args,
                                                  const CollectiveOptions& options) const {
  CheckedCollective c{plan::check_collective(collective, args, group_.rank(), group_.ranks()),
                      {},
                      {args.in, args.out, static_cast<cudaStream_t>(args.stream)}};
  const std::string_view name = row_of(collective).name;
  require_own_stream(name, args.stream);
  const TensorView in = row_of_bytes(args.in, c.call.sends);
  require_on_device(name, "in", in, device_);
  const TensorView out = row_of_bytes(args.out, c.call.takes);
  require_on_device(name, "out", out, device_);
  const auto where = [&](const TensorView& t) {
    return t.rows > 0 ? reachable(t) : cuda::ReachableTensor{};
  };
  const bool direct = cuda::reach_peers(
      c.call, c.tensors, [&] { return where(in); }, [&] { return where(out); });
  c.plan = plan::plan_collective(c.call, collective_machine(), options, direct);
  return c;
}

plan::CollectiveMachine GpuBackend::collective_machine() const {
  if (collectives_ != nullptr) return collectives_->machine(machine_.architecture);
  return {.workers = machine_.multiprocessors,
          .architecture = machine_.architecture,
          .shared = shares_device_};
}

std::string GpuBackend::describe(Collective collective, const CollectiveArgs& args,
                                 const CollectiveOptions& options) const {
  const comm::DeviceScope scope(device_, row_of(collective).name);
  return plan::describe(checked(collective, args, options).plan);
}

void GpuBackend::prepare_collectives(std::string_view refusal) {
  const comm::DeviceScope scope(device_, kPrepare);
  // Then no peer waits here, not even for a refusal.
  if (collectives_ != nullptr && collectives_out_of_step_.empty()) return;
  meet_for_preparation();
  agree_on_calls(group_, kPrepare, kPrepare, refusal, options_.timeout_s);
  if (!refusal.empty()) return;
  if (links_.empty()) links_ = join_devices(group_, device_, uuid_, options_.timeout_s);
  // What was made before may still be in use, here and by peers.
  check(cudaDeviceSynchronize(), "prepare_collectives: earlier GPU work");
  group_.all_gather(kPrepare, options_.timeout_s);
  collectives_.reset();
  collectives_out_of_step_.clear();
  collectives_ =
      std::make_unique<CollectiveCalls>(group_, device_, options_.timeout_s,
                                        RankShare{.multiprocessors = machine_.multiprocessors,
                                                  .architecture = machine_.architecture});
}

void GpuBackend::refuse_collective(std::string_view reason, void* stream) {
  if (collectives_ == nullptr) {
    // A captured first collective is refused on every rank: there is nobody to tell.
    if (!is_captured(stream)) prepare_collectives(reason);
    return;
  }
  if (!collectives_out_of_step_.empty()) return;
  const comm::DeviceScope scope(device_, "refused call");
  const auto on = static_cast<cudaStream_t>(stream);
  if (is_kept_by_capture(on) || !owns(stream) || capture_of(on) != 0) return;
  collectives_->calls.admit("refused call", kRefusalHash, Op{}, on);
}

void GpuBackend::in_collectives(std::string_view name, void* stream,
                                const std::function<void()>& enqueue) {
  const OpRange range(name.data());
  const comm::DeviceScope scope(device_, name);
  for (int p = 0; p < group_.ranks(); ++p)
    if (p != group_.rank() && group_.has_left(p))
      raise(ErrorKind::peer, "{}: peer rank {} has left the group", name, p);
  if (collectives_ != nullptr && collectives_out_of_step_.empty()) {
    try {
      collectives_->calls.throw_if_failed();
    } catch (const Error& e) {
      if (e.kind() == ErrorKind::usage) collectives_out_of_step_ = e.what();
      throw;
    }
  }
  require(collectives_out_of_step_.empty(),
          "{}: ranks made different calls earlier ({}): all ranks must call prepare_collectives "
          "again (in Python: tilelace.recover)",
          name, collectives_out_of_step_);
  try {
    if (collectives_ == nullptr) {
      require(!is_captured(stream),
              "{}: the first collective cannot be captured: call prepare_collectives before the "
              "capture",
              name);
      // Whatever is wrong with this call: the peers are about to prepare.
      prepare_collectives({});
    }
    enqueue();
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::usage) {
      if (collectives_ != nullptr) refuse_collective(e.what(), stream);
    } else {
      const auto self = static_cast<std::uint16_t>(group_.rank());
      group_.abort({static_cast<std::uint8_t>(ErrorKind::system), self, self});
    }
    throw;
  }
}

void GpuBackend::collect(Collective collective, const CollectiveArgs& args,
                         const CollectiveOptions& options) {
  in_collectives(row_of(collective).name, args.stream, [&] {
    const CheckedCollective c = checked(collective, args, options);
    last_stream_ = args.stream;
    collectives_->run(c.call, c.plan, c.tensors);
  });
}

void GpuBackend::collect_within(const Within& within, Collective collective,
                                const CollectiveArgs& args) {
  in_collectives(within.name, args.stream, [&] {
    CheckedCollective c = checked(collective, args, {});
    c.call.meaning = plan::meaning_of(within.words);
    c.tensors.word = within.word;
    c.tensors.wrong = within.wrong;
    last_stream_ = args.stream;
    collectives_->run(c.call, c.plan, c.tensors);
  });
}

void GpuBackend::check_memory(const plan::NormCall& call, const AllReduceNormArgs& args) const {
  require_own_stream(plan::kNormName, args.stream);
  const plan::NormBytes bytes = plan::bytes_of(call);
  const auto on_device = [&](TensorName what, const void* data, plan::Index size) {
    if (data != nullptr && call.rows > 0)
      require_on_device(plan::kNormName, what, row_of_bytes(data, {{0, size}}), device_);
  };
  on_device("x", args.x, bytes.rows);
  on_device("residual", args.residual, bytes.rows);
  on_device("weight", args.weight, bytes.weight);
  on_device("out", args.out, bytes.rows);
  on_device("normed", args.normed, bytes.rows);
  on_device("quantised", args.quantised, bytes.quantised);
  on_device("scales", args.scales, bytes.scales);
}

void GpuBackend::all_reduce_norm(const AllReduceNormArgs& args, const CollectiveOptions& options) {
  in_collectives(plan::kNormName, args.stream, [&] {
    const plan::NormCall call = plan::check_norm(args, group_.rank(), group_.ranks());
    check_memory(call, args);
    const plan::CollectivePlan plan = plan::plan_norm(call, collective_machine(), options);
    last_stream_ = args.stream;
    collectives_->run(call, plan, args);
  });
}

std::string GpuBackend::describe(const AllReduceNormArgs& args,
                                 const CollectiveOptions& options) const {
  const plan::NormCall call = plan::check_norm(args, group_.rank(), group_.ranks());
  return plan::describe(plan::plan_norm(call, collective_machine(), options));
}

}  // namespace tilelace::cuda
