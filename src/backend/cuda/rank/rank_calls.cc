// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/rank/rank_calls.h"

#include "backend/cuda/base/capture_of.h"
#include "backend/cuda/base/cuda_check.h"
#include "backend/cuda/base/current_device.h"
#include "backend/cuda/gemm/neighbours.h"
#include "backend/cuda/rank/empty_calls.h"
#include "backend/cuda/rank/no_calls.h"
#include "core/architecture.h"
#include "core/check.h"
#include "plan/gemm/share.h"

namespace tilelace::cuda {
namespace {

constexpr std::size_t kHeaderBytes = 4096;

std::size_t align(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

int selected(int device) {
  check(cudaSetDevice(device), "selecting the rank's device");
  return device;
}

}  // namespace

RankCalls::RankCalls(comm::Group& group, int device, const SlotNeeds& needs, double timeout_s,
                     const RankShare& share, void (*load)(int architecture))
    : group_(group),
      device_(device),
      all_multiprocessors_(multiprocessors_of(device)),
      multiprocessors_(share.multiprocessors > 0
                           ? std::min(share.multiprocessors, all_multiprocessors_)
                           : all_multiprocessors_),
      architecture_(share.architecture),
      control_(selected(device), group.rank(), &group, timeout_s),
      workspace_(share.architecture),
      flags_bytes_(align(needs.flags * sizeof(comm::Flag))),
      data_bytes_(align(needs.bytes)),
      counts_bytes_(align(needs.counts * sizeof(comm::Flag))),
      lines_bytes_(align(needs.lines)) {
  load(architecture_);
  check(load_empty_calls(), "loading kernels");
  neighbour_places();
  memory_ = comm::allocate_device(group, device, lines_at(2), timeout_s, share.multicast);
  void* counter = nullptr;
  const CallCounter start;
  check(cudaMalloc(&counter, sizeof start + sizeof *granted()), "memory for the count of calls");
  counter_ = static_cast<CallCounter*>(counter);
  check(cudaMemcpy(counter, &start, sizeof start, cudaMemcpyHostToDevice),
        "memory for the count of calls");
  if (lines_bytes_ > 0) clear_lines(timeout_s);
  if (counts_bytes_ == 0) return;
  void* uses = nullptr;
  check(cudaMalloc(&uses, 2 * counts_bytes_), "memory for the uses of counts");
  uses_ = static_cast<comm::Flag*>(uses);
  check(cudaMemset(uses, 0, 2 * counts_bytes_), "memory for the uses of counts");
  check(cudaStreamSynchronize(nullptr),
        "memory for the uses of counts");  // calls come on other streams
}

void RankCalls::clear_lines(double timeout_s) {
  // Calls of slot 0 have even numbers: an odd one is not met when the count gets there again.
  constexpr int kOdd = 1;
  check(cudaMemset(memory_->local() + lines_at(0), kOdd, lines_bytes_),
        "filling the staging of lines");
  check(cudaStreamSynchronize(nullptr), "filling the staging of lines");
  group_.all_gather("lines are prepared", timeout_s);  // nothing may arrive before
}

RankCalls::~RankCalls() {
  const auto self = static_cast<std::uint16_t>(group_.rank());
  control_.stop({static_cast<std::uint8_t>(ErrorKind::usage), self, self});
  cudaFree(counter_);  // waits for the device's work
  cudaFree(uses_);
}

std::size_t RankCalls::flags_at(unsigned slot) const {
  return kHeaderBytes + slot * (flags_bytes_ + data_bytes_);
}

CallName CallName::all_reduce_norm() { return {"all_reduce_norm", kNorm}; }

CallName CallName::of_experts(Collective c) {
  return {c == Collective::reduce_scatter ? "moe_rs" : "moe_ar",
          kExperts + static_cast<std::uint32_t>(c)};
}

std::string_view CallName::of(std::uint32_t number) {
  if (number == 0) return {};
  if (number == kNorm) return all_reduce_norm().text;
  if (number >= kExperts) return of_experts(static_cast<Collective>(number - kExperts)).text;
  if (number < kFirstCollective) return name_of(static_cast<Op>(number - 1));
  return row_of(static_cast<Collective>(number - kFirstCollective)).name;
}

unsigned RankCalls::begin_call(const CallName& name, cudaStream_t stream) {
  require(!failed_,
          "{}: an earlier call failed: make a new communicator (in Python: call tilelace.leave on "
          "every rank)",
          name.text);
  const CallSlots::Place place = slots_.next(capture_of(stream));
  last_ = name.text;
  if (place.align)
    check(enqueue_align(params(0, kAlignHash, name), *place.align, start(1, true), stream),
          "aligning calls");
  return place.slot;
}

CallParams RankCalls::params(unsigned slot, std::uint32_t hash, const CallName& name) const {
  return {group_.rank(),
          group_.ranks(),
          memory_->base(),
          memory_->stride(),
          0,
          flags_at(slot),
          counter_,
          hash,
          true,
          true,
          control_.context(name.number)};
}

plan::GemmPlan RankCalls::fit(const plan::GemmPlan& gemm, int left) const {
  require(gemm.architecture == architecture_, "gemm: plan: got one for {}, expected one for {}",
          name_of_architecture(gemm.architecture), name_of_architecture(architecture_));
  if (!shares_device()) return gemm;
  const int cluster = gemm.tile.cluster();
  require(cluster <= plan::kShareCluster,
          "gemm: tile {} with max_workers: got clusters of {} CTAs, expected at most {}",
          gemm.tile.name, cluster, plan::kShareCluster);
  const plan::GemmPlan plan = plan::beside_others(gemm, multiprocessors_ - 2 * left);
  const int taken = plan::taken_places(plan.workers * cluster, cluster);
  require(plan.workers > 0 && taken <= plan.share,
          "gemm: tile {} with max_workers: got {} CTAs, which need {} multiprocessors, expected at "
          "most {} multiprocessors",
          gemm.tile.name, plan.workers * cluster, taken, plan.share);
  return plan;
}

int RankCalls::fit_ctas(int ctas) const {
  return shares_device() ? plan::standing_ctas(ctas, plan::share_places(multiprocessors_)) : ctas;
}

Start RankCalls::start(int ctas, bool early) const {
  if (!shares_device()) return early ? Start::early : Start::behind;
  return plan::stands_in_pairs(ctas) ? Start::in_pairs : Start::behind;
}

void RankCalls::admit(std::string_view name, std::uint32_t hash, Op op, cudaStream_t stream) {
  const unsigned slot = begin_call(name, op, stream);
  check(enqueue_admit(params(slot, hash, op), stream), "the admission of a call");
}

std::string_view RankCalls::name() const {
  const auto record = control_.record();
  return record && record->op > 0 ? CallName::of(record->op) : last_;
}

void RankCalls::throw_if_failed() {
  failed_ = failed_ || control_.record().has_value();
  control_.throw_if_failed(name());
}

void RankCalls::finish(cudaStream_t stream, double timeout_s) {
  try {
    workspace_.look(stream);
    control_.wait(stream, last_, timeout_s);
    control_.throw_if_failed(name());
    if (workspace_.failed())
      raise(
          ErrorKind::system,
          "{}: a kernel waited too long for a partial sum of split-k: make a new communicator (in "
          "Python: call tilelace.leave on every rank)",
          last_);
  } catch (const Error&) {
    failed_ = true;
    throw;
  }
}

void RankCalls::require_room(std::string_view op, const SlotNeeds& needs) const {
  require(
      needs.bytes <= data_bytes_,
      "{}: the call needs {} bytes of staging, but {} are prepared: call prepare with a larger m",
      op, needs.bytes, data_bytes_);
  require(needs.flags <= flags(),
          "{}: the call needs {} flags, but {} are prepared: call prepare with a larger m", op,
          needs.flags, flags());
  const std::size_t counts = counts_bytes_ / sizeof(comm::Flag);
  require(needs.counts <= counts,
          "{}: the call needs {} counts, but {} are prepared: call prepare with a larger m", op,
          needs.counts, counts);
  require(
      needs.lines <= lines_bytes_,
      "{}: the call needs {} bytes of staging, but {} are prepared: call prepare with a larger m",
      op, needs.lines, lines_bytes_);
}

}  // namespace tilelace::cuda
