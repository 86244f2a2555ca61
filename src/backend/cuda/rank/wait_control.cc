// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/rank/wait_control.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <new>
#include <thread>

#include "backend/cuda/base/capture_of.h"
#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/device/sums_place.h"
#include "backend/cuda/rank/no_calls.h"
#include "comm/cuda/driver.h"
#include "comm/deadline.h"
#include "comm/std_atomics.h"
#include "core/check.h"

namespace tilelace::cuda {
namespace {

using comm::StdAtomics;

constexpr std::string_view kName = "waits";

std::string_view name_of_role(Role role) {
  switch (role) {
    case Role::load: return "load";
    case Role::math: return "math";
    case Role::store: return "store";
    case Role::copy: return "copy";
    case Role::reduce: return "reduce";
  }
  return "?";
}

std::string_view name_of_deed(std::uint64_t hash) {
  switch (hash) {
    case kRefusalHash: return "refused its call";
    case kPreparationHash: return "prepares";
    default: return "makes a call";
  }
}

/// Page-locks the page for kernels of all devices, once however many look at it (ranks of a
/// process, preparations that graphs keep); lets it go behind the last one. Null: refused.
std::shared_ptr<void> registered_page(void* begin, std::size_t bytes) {
  static std::mutex mutex;
  static auto& pages = *new std::map<void*, std::weak_ptr<void>>;  // outlives every static owner
  const std::scoped_lock lock(mutex);
  if (auto page = pages[begin].lock()) return page;
  const unsigned flags = cudaHostRegisterMapped | cudaHostRegisterPortable;
  if (cudaHostRegister(begin, bytes, flags) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return nullptr;
  }
  std::shared_ptr<void> page(begin, [](void* at) {
    const std::scoped_lock unlock(mutex);
    pages.erase(at);
    if (comm::driver_if_alive() != nullptr) cudaHostUnregister(at);
  });
  pages[begin] = page;
  return page;
}

bool is_call(std::uint64_t hash) { return hash != kRefusalHash && hash != kPreparationHash; }

bool has_wrong_ids(std::uint64_t hash) { return hash == kWrongIdsHash || hash == kOwnWrongIdsHash; }

Error disagreement(const WaitRecord& r, std::string_view op, int rank) {
  if (has_wrong_ids(r.have) || has_wrong_ids(r.want))
    return {ErrorKind::usage, fmt::format("{}: ids: rank {} has an id that names no expert, "
                                          "expected -1 or the number of an expert",
                                          op, has_wrong_ids(r.want) ? rank : r.place.peer)};
  if (is_call(r.have) && is_call(r.want))
    return {
        ErrorKind::usage,
        fmt::format(
            "{}: rank {} makes another call than rank {} (agreement hashes {:#010x} and {:#010x}): "
            "op, shapes, types, plan, the place of results in symmetric memory and the routing of "
            "experts must be the same on all ranks",
            op, r.place.peer, rank, r.have, r.want)};
  const std::string_view own = r.want == kPreparationHash ? "prepare" : "refused call";
  return {ErrorKind::usage, fmt::format("{}: rank {} {}, rank {} {}: all ranks must do the same",
                                        is_call(r.want) ? op : own, r.place.peer,
                                        name_of_deed(r.have), rank, name_of_deed(r.want))};
}

}  // namespace

Error expired_error(const WaitRecord& r, std::string_view op, int rank, double bound_s) {
  const WaitPlace& p = r.place;
  const std::string flag = p.flag == kHeaderFlag ? "its header" : fmt::format("flag {}", p.flag);
  const std::string tile = p.tile < 0 ? "" : fmt::format(", tile {}", p.tile);
  if (p.step == kEveryRank)
    return {ErrorKind::timeout,
            fmt::format("{}: not every rank added to count {} of call {} within {:g} s (rank {} "
                        "waited, role {}{})",
                        op, p.flag, r.call, bound_s, rank, name_of_role(p.role), tile)};
  return {ErrorKind::timeout,
          fmt::format("{}: rank {} did not signal {} of call {} within {:g} s (rank {} waited, "
                      "role {}, step {}{}): got {}, expected {}",
                      op, p.peer, flag, r.call, bound_s, rank, name_of_role(p.role), p.step, tile,
                      r.have, r.want)};
}

void await_stream(cudaStream_t stream, const std::function<void()>& look) {
  const BesideCaptures others;
  auto nap = std::chrono::microseconds(5);
  for (;;) {
    const cudaError_t status = cudaStreamQuery(stream);
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) check(status, "waiting for a stream");
    look();
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 2, std::chrono::microseconds(500));
  }
}

WaitControl::WaitControl(int device, int rank, comm::Group* group, double timeout_s)
    : device_(device), rank_(rank), group_(group), host_(device, sizeof(WaitPage)) {
  set_timeout(timeout_s);
  new (host_.host()) WaitPage;
  const comm::DeviceScope scope(device, kName);
  void* word = nullptr;
  check(cudaMalloc(&word, sizeof(comm::AbortWord)), "waits: memory for an abort word");
  cudaError_t status = cudaMemset(word, 0, sizeof(comm::AbortWord));
  if (status == cudaSuccess) status = cudaDeviceSynchronize();
  if (status != cudaSuccess) cudaFree(word);
  check(status, "waits: memory for an abort word");
  stop_ = static_cast<comm::AbortWord*>(word);
  if (group != nullptr) watch_group();
}

// Where the page cannot be registered relay() does the work.
void WaitControl::watch_group() {
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto* const word = const_cast<comm::AbortWord*>(group_->abort_word());
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(word) % page_bytes;
  std::byte* const begin = reinterpret_cast<std::byte*>(word) - offset;
  void* mapped = nullptr;
  registered_ = registered_page(begin, page_bytes);
  if (registered_ != nullptr && cudaHostGetDevicePointer(&mapped, begin, 0) == cudaSuccess)
    group_stop_ =
        reinterpret_cast<const comm::AbortWord*>(static_cast<std::byte*>(mapped) + offset);
  static_cast<void>(cudaGetLastError());
}

WaitControl::~WaitControl() {
  const auto self = static_cast<std::uint16_t>(rank_);
  stop({static_cast<std::uint8_t>(ErrorKind::usage), self, self});
  if (comm::driver_if_alive() == nullptr) return;
  cudaSetDevice(device_);
  cudaFree(stop_);  // waits for the device's work, whose waits stop() has ended
}

WaitContext WaitControl::context(std::uint32_t op) const {
  auto* const mapped = reinterpret_cast<WaitPage*>(host_.device());
  return {stop_,
          &mapped->stop,
          group_stop_,
          &mapped->record,
          static_cast<std::int64_t>(timeout_s_ * 1e9),
          op,
          rank_};
}

void WaitControl::set_timeout(double timeout_s) {
  require(timeout_s > 0, "{}: timeout: got {} s, expected more than 0", kName, timeout_s);
  timeout_s_ = std::min(timeout_s, 1e9);
}

void WaitControl::stop(comm::AbortReason reason) noexcept {
  comm::raise_abort<StdAtomics>(&page().stop, reason);
}

bool WaitControl::stopped() const {
  if (StdAtomics::load_acquire(&page().record.ready) != 0) return true;
  if (comm::read_abort<StdAtomics>(&page().stop).kind != 0) return true;
  return group_ != nullptr && comm::read_abort<StdAtomics>(group_->abort_word()).kind != 0;
}

std::optional<WaitRecord> WaitControl::record() const {
  if (StdAtomics::load_acquire(&page().record.ready) == 0) return std::nullopt;
  return page().record;
}

void WaitControl::throw_if_failed(std::string_view op) {
  const std::optional<WaitRecord> r = record();
  if (r && r->status == kDisagrees) throw disagreement(*r, op, rank_);
  if (r && r->status == static_cast<std::uint32_t>(comm::WaitStatus::expired)) {
    if (group_ != nullptr)
      group_->abort({static_cast<std::uint8_t>(ErrorKind::timeout),
                     static_cast<std::uint16_t>(rank_), static_cast<std::uint16_t>(r->place.peer)});
    throw expired_error(*r, op, rank_, timeout_s_);
  }
  if (group_ != nullptr) group_->throw_if_aborted(op);
  const comm::AbortReason own = comm::read_abort<StdAtomics>(&page().stop);
  if (own.kind == 0) return;
  const ErrorKind kind = own.kind <= 4 ? static_cast<ErrorKind>(own.kind) : ErrorKind::system;
  raise(kind, "{}: rank {} stopped the kernels of rank {} after an error of kind {} about rank {}",
        op, own.origin, rank_, name_of(kind), own.about);
}

void WaitControl::relay() noexcept {
  if (group_ == nullptr || group_stop_ != nullptr) return;
  const comm::AbortReason reason = comm::read_abort<StdAtomics>(group_->abort_word());
  if (reason.kind != 0) stop(reason);
}

void WaitControl::wait(cudaStream_t stream, std::string_view op, double timeout_s) {
  constexpr double kGraceSeconds = 2;
  const comm::Deadline deadline(op, timeout_s);
  const comm::Deadline hopeless(op, timeout_s + kGraceSeconds);
  await_stream(stream, [&] {
    relay();
    const auto self = static_cast<std::uint16_t>(rank_);
    if (deadline.passed()) stop({static_cast<std::uint8_t>(ErrorKind::timeout), self, self});
    if (hopeless.passed())
      raise(ErrorKind::system,
            "{}: rank {}: its kernels still run {:g} s after they were told to stop", op, rank_,
            kGraceSeconds);
  });
}

void WaitControl::finish(cudaStream_t stream, std::string_view op, double timeout_s) {
  wait(stream, op, timeout_s);
  throw_if_failed(op);
}

void WaitControl::reset() {
  const comm::DeviceScope scope(device_, kName);
  check(cudaMemset(stop_, 0, sizeof *stop_), "waits: clearing the abort word");
  check(cudaDeviceSynchronize(), "waits: clearing the abort word");
  page() = WaitPage{};
}

}  // namespace tilelace::cuda
