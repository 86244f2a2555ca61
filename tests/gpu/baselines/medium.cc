// SPDX-License-Identifier: Apache-2.0
#include "medium.h"

#include <algorithm>

#include "backend/cuda/advance.h"
#include "backend/cuda/cuda_check.h"
#include "landed.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;

constexpr std::size_t kFlagPitch = 64;
constexpr std::size_t kFlags = 1 << 14;  // the epoch, then a flag a slot and source
constexpr double kWaitSeconds = 10;

std::size_t flag_at(std::size_t slot, int ranks, int source) {
  return (1 + slot * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(source)) *
         kFlagPitch;
}

}  // namespace

Medium::Medium(Rank& rank, const std::vector<Row>& rows)
    : rank_(rank), control_(rank.device, rank.rank, rank.group, kWaitSeconds) {
  for (const Row& row : rows)
    if (row.op == Op::ag_gemm) slot_bytes_ = std::max(slot_bytes_, row.moved_bytes());
  slot_bytes_ = (slot_bytes_ + 4095) / 4096 * 4096;
  memory_ = comm::allocate_device(*rank.group, rank.device, kFlags + 2 * slot_bytes_, kMeetSeconds);
  engine_ = std::make_unique<cuda::CopyEngine>(
      rank.device, reinterpret_cast<const comm::Flag*>(memory_->local()));
  check(cudaStreamCreateWithFlags(&side_, cudaStreamNonBlocking), "a second stream");
  check(cudaEventCreateWithFlags(&forked_, cudaEventDisableTiming), "an event");
  check(cudaEventCreateWithFlags(&joined_, cudaEventDisableTiming), "an event");
}

Medium::~Medium() {
  if (joined_ != nullptr) cudaEventDestroy(joined_);
  if (forked_ != nullptr) cudaEventDestroy(forked_);
  if (side_ != nullptr) cudaStreamDestroy(side_);
}

void Medium::run(const Row& row, const Call& call, const std::byte* own,
                 std::initializer_list<const BestBlas*> gemms) {
  const std::size_t slot = calls_++ % 2;
  const std::size_t rows_at = kFlags + slot * slot_bytes_;
  const std::size_t shard = row.shard_bytes();
  const auto width = static_cast<std::int64_t>(row.bytes_of(1, row.gemm.k));
  auto* const epoch = reinterpret_cast<comm::Flag*>(memory_->local());
  cuda::Advance advance;
  advance.epoch = epoch;
  check(cuda::enqueue_advance(advance, rank_.stream), "the epoch");
  engine_->fork(rank_.stream);
  for (int i = 1; i < rank_.ranks; ++i) {
    std::byte* const peer = memory_->peer((rank_.rank + i) % rank_.ranks);
    engine_->copy_rows(peer + rows_at + static_cast<std::size_t>(rank_.rank) * shard, width, own,
                       width, width, row.shard_rows());
    engine_->signal(reinterpret_cast<comm::Flag*>(peer + flag_at(slot, rank_.ranks, rank_.rank)));
  }
  const bool aside = gemms.size() > 1;
  if (aside) {
    check(cudaEventRecord(forked_, rank_.stream), "an event");
    check(cudaStreamWaitEvent(side_, forked_), "an event");
  }
  // Every flag is awaited in every call: that is what makes two slots enough.
  for (int i = 0; i < rank_.ranks; ++i) {
    const int source = (rank_.rank - i + rank_.ranks) % rank_.ranks;
    const std::size_t turn = static_cast<std::size_t>(i) % gemms.size();
    const cudaStream_t stream = turn == 0 ? rank_.stream : side_;
    std::byte* const local = memory_->local();
    if (i > 0)
      check(enqueue_landed(
                {reinterpret_cast<const comm::Flag*>(local + flag_at(slot, rank_.ranks, source)),
                 epoch, source, control_.context()},
                stream),
            "a wait");
    const auto at = static_cast<std::size_t>(source);
    const std::byte* const a = i == 0 ? own : local + rows_at + at * shard;
    auto* const out =
        static_cast<std::byte*>(call.gemm.out) + at * row.bytes_of(row.shard_rows(), row.gemm.n);
    gemms.begin()[turn]->launch({a, call.gemm.weight, nullptr, out, Activation::none}, stream);
  }
  if (aside) {
    check(cudaEventRecord(joined_, side_), "an event");
    check(cudaStreamWaitEvent(rank_.stream, joined_), "an event");
  }
  engine_->join(rank_.stream);
}

void Medium::finish() { control_.finish(rank_.stream, "medium", kFinishSeconds); }

}  // namespace tilelace::gpu_test
