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
  require_on_device(name, "in", row_of_bytes(args.in, c.call.sends), device_);
  const TensorView out = row_of_bytes(args.out, c.call.takes);
  require_on_device(name, "out", out, device_);
  // Where each rank's part goes in the whole is known to all: all_gather's.
  if (collective == Collective::all_gather && out.rows > 0) c.tensors.reachable = reachable(out);
  const plan::CollectiveMachine machine =
      collectives_ == nullptr ? plan::CollectiveMachine{.workers = machine_.multiprocessors,
                                                        .architecture = machine_.architecture,
                                                        .shared = shares_device_}
                              : collectives_->machine(machine_.architecture);
  c.plan = plan::plan_collective(c.call, machine, options, c.tensors.reachable.base != nullptr);
  return c;
}

std::string GpuBackend::describe(Collective collective, const CollectiveArgs& args,
                                 const CollectiveOptions& options) const {
  const comm::DeviceScope scope(device_, row_of(collective).name);
  return plan::describe(checked(collective, args, options).plan);
}

void GpuBackend::prepare_collectives(std::string_view refusal) {
  const comm::DeviceScope scope(device_, kPrepare);
  if (collectives_ != nullptr && collectives_out_of_step_.empty() && refusal.empty()) return;
  meet_for_preparation();
  agree_on_calls(group_, kPrepare, kPrepare, refusal, options_.timeout_s);
  if (!refusal.empty()) return;
  if (links_.empty()) links_ = join_devices(group_, device_, uuid_, options_.timeout_s);
  // What was made before may still be in use, here and by peers.
  check(cudaDeviceSynchronize(), "prepare_collectives: the work before it");
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

void GpuBackend::collect(Collective collective, const CollectiveArgs& args,
                         const CollectiveOptions& options) {
  const std::string_view name = row_of(collective).name;
  const OpRange range(name.data());
  const comm::DeviceScope scope(device_, name);
  for (int p = 0; p < group_.ranks(); ++p)
    if (p != group_.rank() && group_.has_left(p))
      raise(ErrorKind::peer, "{}: peer rank {} has left, expected it to take part", name, p);
  if (collectives_ != nullptr && collectives_out_of_step_.empty()) {
    try {
      collectives_->calls.throw_if_failed();
    } catch (const Error& e) {
      if (e.kind() == ErrorKind::usage) collectives_out_of_step_ = e.what();
      throw;
    }
  }
  require(collectives_out_of_step_.empty(),
          "{}: got a call after ranks made different ones ({}), expected all ranks to prepare "
          "collectives again",
          name, collectives_out_of_step_);
  try {
    if (collectives_ == nullptr) {
      require(!is_captured(args.stream),
              "{}: got a first collective that is captured, expected prepare_collectives before it",
              name);
      // Whatever is wrong with this call: the peers are about to prepare.
      prepare_collectives({});
    }
    const CheckedCollective c = checked(collective, args, options);
    last_stream_ = args.stream;
    collectives_->run(c.call, c.plan, c.tensors);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::usage) {
      if (collectives_ != nullptr) refuse_collective(e.what(), args.stream);
    } else {
      const auto self = static_cast<std::uint16_t>(group_.rank());
      group_.abort({static_cast<std::uint8_t>(ErrorKind::system), self, self});
    }
    throw;
  }
}

}  // namespace tilelace::cuda
