// SPDX-License-Identifier: Apache-2.0
#include "tilelace/communicator.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "backend/prepared_calls.h"
#include "comm/launch_env.h"
#include "core/check.h"
#include "core/env.h"
#include "core/say.h"
#include "op/impl.h"
#include "op/tensors.h"
#include "op/tune_experts.h"
#include "op/tuning.h"
#include "plan/base/problem.h"
#include "plan/words/agreement.h"
#include "tilelace/version.h"

namespace tilelace {
namespace {

/// What has a meaning for CPU ranks alone.
void check_gpu_options(const CommunicatorOptions& o) {
  require(o.workers == 0,
          "communicator: workers on GPUs: got {}, expected 0: plans choose the multiprocessors",
          o.workers);
  require(o.link_bytes_per_s == 0 && o.link_latency_s == 0,
          "communicator: emulated links are for CPU ranks");
  require(!o.checked, "communicator: checked mode is for CPU ranks");
}

CommunicatorOptions checked_options(CommunicatorOptions o, int ranks) {
  require(ranks >= 1 && ranks <= plan::kMaxRanks, "communicator: ranks: got {}, expected 1 to {}",
          ranks, plan::kMaxRanks);
  require(o.workers >= 0 && o.workers <= 1024, "communicator: workers: got {}, expected 0 to 1024",
          o.workers);
  require(o.device <= Device::cuda,
          "communicator: device: got the unknown value {}, expected cpu or cuda",
          static_cast<int>(o.device));
  require(o.device == Device::cuda || o.device_index == -1,
          "communicator: device index: got {} for CPU ranks, expected -1", o.device_index);
  op::check_tuning_options(o);
  require(o.device == Device::cuda || !o.multicast, "communicator: multicast is for GPU ranks");
  require(o.max_workers >= 0, "communicator: max_workers: got {}, expected 0 or more",
          o.max_workers);
  require(o.timeout_s > 0 && o.timeout_s <= 86400,
          "communicator: timeout: got {} s, expected more than 0 and at most 86400", o.timeout_s);
  require(o.link_bytes_per_s >= 0 && o.link_bytes_per_s <= 1e15,
          "communicator: link bandwidth: got {}, expected 0 to 1e15 bytes/s", o.link_bytes_per_s);
  require(o.link_latency_s >= 0 && o.link_latency_s <= 10,
          "communicator: link latency: got {} s, expected 0 to 10", o.link_latency_s);
  if (o.device == Device::cuda) {
    check_gpu_options(o);
    return o;
  }
  if (o.workers == 0) {
    o.workers = cpu_machine(ranks, 0).workers;
    if (o.max_workers > 0) o.workers = std::min(o.workers, o.max_workers);
  }
  require(o.max_workers == 0 || o.workers <= o.max_workers,
          "communicator: workers: got {}, expected at most max_workers, {}", o.workers,
          o.max_workers);
  return o;
}

}  // namespace

Communicator::Impl::Impl(std::unique_ptr<comm::Group> g, const CommunicatorOptions& o,
                         std::shared_ptr<CheckedGroup> checked)
    : group(std::move(g)),
      options(op::with_tuning(*group, o)),
      backend(options.device == Device::cuda
                  ? make_cuda_backend(*group, options)
                  : make_cpu_backend(*group, options, std::move(checked))),
      process(getpid()) {}

void Communicator::Impl::enter(std::string_view op, bool alone) {
  require(alone, "{}: another thread is in a call on this communicator: one call at a time", op);
  if (failure) {
    raise(failure->kind(),
          "{}: this communicator takes no more calls since it failed ({}): make a new one (in "
          "Python: call tilelace.leave on every rank)",
          op, failure->what());
  }
}

Error Communicator::Impl::of_call(std::string_view op, const Error& error) {
  std::string_view text = error.what();
  if (text.starts_with(op)) return error;
  const auto verb = fmt::format("{}: ", op.substr(0, op.find(' ')));  // "prepare" of "prepare of X"
  if (text.starts_with(verb)) text.remove_prefix(verb.size());
  return {error.kind(), fmt::format("{}: {}", op, text)};
}

Error Communicator::Impl::of_system(std::string_view op, const std::exception& e) const {
  return {ErrorKind::system,
          fmt::format("{}: rank {} ran out of memory or threads: {}", op, group->rank(), e.what())};
}

void Communicator::Impl::fail(const Error& error) {
  failure = error;
  if (error.kind() != ErrorKind::system) return;  // of a peer; whoever found that has told all
  const auto self = static_cast<std::uint16_t>(group->rank());
  group->abort({static_cast<std::uint8_t>(error.kind()), self, self});
}

const Plan& Communicator::Impl::plan_of(const Problem& problem, const PlanOptions& plan_options) {
  return plans.get({problem, plan_options},
                   [&] { return make_plan(problem, backend->machine(), plan_options); });
}

void Communicator::Impl::read_tuning(bool together, const Impl* has_read) {
  if (options.device != Device::cuda) {
    if (options.autotune > 0 && group->rank() == 0)
      say_once("autotune: CPU ranks have nothing to tune");
    return;
  }
  tuning = {*group,
            options,
            backend->machine(),
            backend->device_name(),
            together,
            has_read == nullptr ? nullptr : &has_read->tuning};
  backend->take_tuning(tuning.table());
}

void Communicator::Impl::keep(const TunedProblem& row) {
  tuning.put(row.problem, row.plan, {row.us, row.predicted_us, row.plans, TILELACE_VERSION_STRING});
  backend->take_tuning(tuning.table());
  plans.clear();
}

void Communicator::Impl::keep(const op::FoundTiles& found) {
  const TunedExperts& row = found.row;
  tuning.put(found.product, found.shape,
             {row.timed.front().us, row.rule_us, row.timed.size(), TILELACE_VERSION_STRING});
  backend->take_tuning(tuning.table());
}

Communicator::Impl::~Impl() {
  if (getpid() != process) {
    // A fork copied it: threads, sockets and flags are the parent's.
    static_cast<void>(backend.release());
    static_cast<void>(group.release());
    return;
  }
  // Peers would take an exception's unwinding for a rank that is done.
  if (std::uncaught_exceptions() == 0) return;
  const auto rank = static_cast<std::uint16_t>(group->rank());
  group->abort({static_cast<std::uint8_t>(ErrorKind::peer), rank, rank});
}

Communicator Communicator::Impl::wrap(std::unique_ptr<Impl> impl) {
  return Communicator(std::move(impl));
}

Communicator::Communicator() noexcept = default;
Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Communicator::Impl& Communicator::impl() const {
  require(impl_ != nullptr, "communicator: the object is empty: it was moved from, or never made");
  return *impl_;
}

std::vector<Communicator> Communicator::threads(int ranks, const CommunicatorOptions& options) {
  const auto o = checked_options(options, ranks);
  require(o.device_index == -1 || ranks == 1,
          "communicator: device index: got {} for {} threads, expected -1: each thread takes the "
          "GPU of its rank",
          o.device_index, ranks);
  auto checked = o.checked ? make_checked_group(ranks, o.workers) : nullptr;
  std::vector<Communicator> members;
  for (auto& group : comm::make_thread_groups(ranks)) {
    auto own = o;
    if (o.device == Device::cuda && o.device_index == -1) own.device_index = group->rank();
    members.push_back(Impl::wrap(std::make_unique<Impl>(std::move(group), own, checked)));
    members.back().impl().read_tuning(false,
                                      members.size() == 1 ? nullptr : &members.front().impl());
  }
  return members;
}

namespace {

/// With the GPU that a launcher means for this process; without a launcher that of the rank's
/// number. Before ranks meet: one without a GPU shall not keep the others waiting.
CommunicatorOptions with_gpu(CommunicatorOptions o, int rank) {
  if (o.device == Device::cpu || o.device_index != -1) return o;
  const auto launch = comm::read_launch(&env::launch_variable);
  o.device_index = cuda_device_of(launch ? launch->local_rank : rank);
  return o;
}

}  // namespace

Communicator Communicator::Impl::joined(std::unique_ptr<Impl> impl) {
  impl->read_tuning(true);
  return wrap(std::move(impl));
}

Communicator Communicator::process(int rank, int ranks, const std::string& directory,
                                   const CommunicatorOptions& options) {
  const auto o = with_gpu(checked_options(options, ranks), rank);
  require(!o.checked, "communicator: checked mode is for ranks that are threads");
  return Impl::joined(
      std::make_unique<Impl>(comm::make_process_group(rank, ranks, directory, o.timeout_s), o));
}

Communicator Communicator::from_sockets(int rank, std::vector<int> sockets,
                                        const CommunicatorOptions& options) {
  // Closed here, too, where the options are wrong: peers shall not wait for this rank.
  std::vector<comm::UniqueFd> owned(sockets.begin(), sockets.end());
  const auto o = with_gpu(checked_options(options, static_cast<int>(sockets.size())), rank);
  require(!o.checked, "communicator: checked mode is for ranks that are threads");
  for (auto& fd : owned) fd.release();
  return Impl::joined(
      std::make_unique<Impl>(comm::make_socket_group(rank, std::move(sockets), o.timeout_s), o));
}

Communicator Communicator::launched(const CommunicatorOptions& options) {
  const auto launch = comm::read_launch(&env::launch_variable);
  require(
      launch.has_value(),
      "communicator: RANK is not set: start the program by torchrun, mpirun or `tilelace launch`");
  const auto o = with_gpu(checked_options(options, launch->ranks), launch->rank);
  require(!o.checked, "communicator: checked mode is for ranks that are threads");
  return Impl::joined(std::make_unique<Impl>(
      comm::make_process_group(launch->rank, launch->ranks, launch->directory, o.timeout_s), o));
}

int Communicator::rank() const { return impl().group->rank(); }
int Communicator::size() const { return impl().group->ranks(); }
int Communicator::workers() const { return impl().backend->machine().workers; }
Machine Communicator::machine() const { return impl().backend->machine(); }

std::string_view Communicator::link_to(int rank) const {
  require(rank >= 0 && rank < size() && rank != this->rank(),
          "communicator: link: got rank {}, expected one from 0 to {} other than this rank, {}",
          rank, size() - 1, this->rank());
  return impl().backend->link_to(rank).name;
}

void Communicator::Impl::prepare(std::span<const Preparation> list, Before before) {
  // A first call prepares: an error names its op, too.
  std::string name = "prepare";
  if (list.size() == 1) name += fmt::format(" of {}", name_of(list[0].problem.op));
  call(name, [&] {
    std::vector<PreparedCall> calls;
    try {
      for (const auto& p : list) {
        op::check_preparation(p, group->ranks());
        calls.push_back({p.problem, p.options, p.weights});
        plan_of(p.problem, p.options);
      }
    } catch (const Error& e) {
      backend->prepare({}, before, e.what());
      throw;
    }
    backend->prepare(calls, before, {});
  });
}

void Communicator::prepare(std::span<const Preparation> list) {
  impl().prepare(list, Before::goes);
}

void Communicator::prepare_more(std::span<const Preparation> list) {
  impl().prepare(list, Before::stays);
}

void Communicator::Impl::compare(const Problem& problem, const Plan& plan, bool collective) {
  if (!compares) return;
  std::string bytes;
  for (const char c : plan::call_bytes(problem, plan, {.collective = collective}))
    bytes += fmt::format("{:02x}", static_cast<unsigned char>(c));
  agree_on_calls(*group, name_of(problem.op),
                 fmt::format("{}{}; {}\nbytes {}", collective ? "collective of " : "",
                             fmt::streamed(problem), fmt::streamed(plan), bytes),
                 {}, options.timeout_s);
}

void Communicator::Impl::refuse(std::string_view op, std::string_view reason, void* stream) {
  if (compares) return agree_on_calls(*group, op, {}, reason, options.timeout_s);
  backend->refuse(reason, stream);
}

Communicator Communicator::subgroup(std::span<const int> ranks) {
  Impl& i = impl();
  return i.call("subgroup", [&] {
    auto options = i.options;
    options.checked = false;
    return Impl::joined(
        std::make_unique<Impl>(i.group->subgroup(ranks, options.timeout_s), options));
  });
}

void Communicator::barrier() {
  Impl& i = impl();
  i.call("barrier", [&] { i.group->all_gather("barrier", i.options.timeout_s); });
}

void Communicator::synchronize(void* stream, double bound_s) {
  Impl& i = impl();
  require(bound_s > 0 && bound_s <= 1e9,
          "synchronize: bound: got {} s, expected more than 0 and at most 1e9", bound_s);
  i.call("synchronize", [&] { i.backend->synchronize(stream, bound_s); });
}

void Communicator::abort() noexcept {
  if (impl_ == nullptr) return;
  const auto rank = static_cast<std::uint16_t>(impl_->group->rank());
  impl_->group->abort({static_cast<std::uint8_t>(ErrorKind::peer), rank, rank});
}

std::vector<std::string> Communicator::findings() const { return impl().backend->findings(); }

}  // namespace tilelace
