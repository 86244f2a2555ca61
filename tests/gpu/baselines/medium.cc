// SPDX-License-Identifier: Apache-2.0
#include "medium.h"

#include <algorithm>

#include "backend/cuda/advance.h"
#include "backend/cuda/cuda_check.h"
#include "landed.h"
#include "shard_sums.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;

constexpr std::size_t kFlagPitch = 64;
constexpr std::size_t kFlags = 1 << 14;  // the epoch, then a flag a slot and source
constexpr double kMediumWaitSeconds = 10;

std::size_t flag_at(std::size_t slot, int ranks, int source) {
  return (1 + slot * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(source)) *
         kFlagPitch;
}

}  // namespace

Medium::Medium(Rank& rank, const std::vector<Row>& rows)
    : rank_(rank), control_(rank.device, rank.rank, rank.group, kMediumWaitSeconds) {
  require(rank.ranks <= kMostTerms, "medium: ranks, got {}, expected at most {}", rank.ranks,
          kMostTerms);
  for (const Row& row : rows)
    if (knows(row)) slot_bytes_ = std::max(slot_bytes_, row.moved_bytes());
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

comm::Flag* Medium::epoch() const { return reinterpret_cast<comm::Flag*>(memory_->local()); }

cudaStream_t Medium::stream_of(const Turn& t, int i) const {
  return static_cast<std::size_t>(i) % t.gemms.size() == 0 ? rank_.stream : side_;
}

void Medium::product(const Turn& t, int i, const std::byte* a, std::byte* out) const {
  const BestBlas& blas = *t.gemms.begin()[static_cast<std::size_t>(i) % t.gemms.size()];
  blas.launch({a, t.call.gemm.weight, nullptr, out, Activation::none}, stream_of(t, i));
}

void Medium::await(const Turn& t, int source, cudaStream_t stream) const {
  const std::byte* const flag = memory_->local() + flag_at(t.slot, rank_.ranks, source);
  check(
      enqueue_landed(
          {reinterpret_cast<const comm::Flag*>(flag), epoch(), source, control_.context()}, stream),
      "a wait");
}

void Medium::send(const Turn& t, int to, const std::byte* from, std::int64_t cols) {
  const auto width = static_cast<std::int64_t>(t.row.bytes_of(1, cols));
  std::byte* const peer = memory_->peer(to);
  engine_->copy_rows(peer + t.staged + static_cast<std::size_t>(rank_.rank) * t.row.shard_bytes(),
                     width, from, width, width, t.row.shard_rows());
  engine_->signal(reinterpret_cast<comm::Flag*>(peer + flag_at(t.slot, rank_.ranks, rank_.rank)));
}

void Medium::fork_side(const Turn& t) {
  if (t.gemms.size() < 2) return;
  check(cudaEventRecord(forked_, rank_.stream), "an event");
  check(cudaStreamWaitEvent(side_, forked_), "an event");
}

void Medium::join_side(const Turn& t) {
  if (t.gemms.size() < 2) return;
  check(cudaEventRecord(joined_, side_), "an event");
  check(cudaStreamWaitEvent(rank_.stream, joined_), "an event");
}

void Medium::run(const Row& row, const Call& call, const std::byte* own,
                 std::initializer_list<const BestBlas*> gemms) {
  const std::size_t slot = calls_++ % 2;
  const Turn turn{row, call, gemms, slot, kFlags + slot * slot_bytes_};
  cuda::Advance advance;
  advance.epoch = epoch();
  check(cuda::enqueue_advance(advance, rank_.stream), "the epoch");
  if (row.op == Op::ag_gemm)
    gather(turn, own);
  else
    scatter(turn);
  engine_->join(rank_.stream);
}

/// Every flag is awaited in every call: that is what makes two slots enough.
void Medium::gather(const Turn& t, const std::byte* own) {
  const Row& row = t.row;
  engine_->fork(rank_.stream);
  for (int i = 1; i < rank_.ranks; ++i) send(t, (rank_.rank + i) % rank_.ranks, own, row.gemm.k);
  fork_side(t);
  for (int i = 0; i < rank_.ranks; ++i) {
    const int source = (rank_.rank - i + rank_.ranks) % rank_.ranks;
    const auto at = static_cast<std::size_t>(source);
    if (i > 0) await(t, source, stream_of(t, i));
    product(
        t, i, i == 0 ? own : memory_->local() + t.staged + at * row.shard_bytes(),
        static_cast<std::byte*>(t.call.gemm.out) + at * row.bytes_of(row.shard_rows(), row.gemm.n));
  }
  join_side(t);
}

void Medium::scatter(const Turn& t) {
  const Row& row = t.row;
  const auto part = [&](int rank) {
    return t.call.moved + static_cast<std::size_t>(rank) * row.shard_bytes();
  };
  fork_side(t);
  for (int i = 0; i < rank_.ranks; ++i) {
    const int owner = (rank_.rank + 1 + i) % rank_.ranks;
    product(t, i,
            static_cast<const std::byte*>(t.call.gemm.a) +
                static_cast<std::size_t>(owner) * row.bytes_of(row.shard_rows(), row.gemm.k),
            part(owner));
    if (owner == rank_.rank) continue;
    engine_->fork(stream_of(t, i));
    send(t, owner, part(owner), row.gemm.n);
  }
  join_side(t);
  ShardSum sum;
  for (int r = 0; r < rank_.ranks; ++r) {
    if (r != rank_.rank) await(t, r, rank_.stream);
    sum.terms[sum.count++] = r == rank_.rank ? part(r)
                                             : memory_->local() + t.staged +
                                                   static_cast<std::size_t>(r) * row.shard_bytes();
  }
  sum.to = t.call.result;
  sum.elements = static_cast<std::int64_t>(row.shard_elements());
  sum.dtype = row.gemm.dtype;
  check(enqueue_shard_sum(sum, rank_.stream), "the sums");
}

void Medium::finish() { control_.finish(rank_.stream, "medium", kFinishSeconds); }

}  // namespace tilelace::gpu_test
