// SPDX-License-Identifier: Apache-2.0
// Device code of a litmus: the producer and the consumer of a lane.
#pragma once
#include "backend/cuda/device/transfer.h"
#include "backend/cuda/device/wait.h"
#include "litmus.h"
#include "litmus_words.h"

namespace tilelace::gpu_test {

using cuda::Crew;
using cuda::Landing;
using cuda::WaitPlace;

/// Mutants' accesses to flags: relaxed instead of release and acquire.
struct RelaxedAtomics : comm::CudaAtomics {
  using comm::CudaAtomics::load_acquire;
  static __device__ std::uint32_t load_acquire(const std::uint32_t* word) {
    std::uint32_t value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
  }
  static __device__ void store_release(std::uint32_t* word, std::uint32_t value) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
  }
};

__device__ inline void raise_flag(const Litmus& l, comm::Flag* flag, std::uint32_t epoch) {
  if (l.mutant == Mutant::relaxed_signal)
    comm::signal<RelaxedAtomics>(flag, epoch);
  else
    cuda::signal(flag, epoch);
}

/// Called by a whole CTA. `bulk`: bulk copies access the data next. `mutable_here`: mutants apply.
__device__ inline bool await(const Litmus& l, const WaitPlace& place, const comm::Flag* flag,
                             std::uint32_t epoch, bool bulk, bool mutable_here) {
  comm::WaitStatus status = comm::WaitStatus::reached;
  if (threadIdx.x == 0) {
    if (mutable_here && l.mutant == Mutant::relaxed_wait) {
      comm::Flag seen = 0;
      const std::int64_t end = comm::CudaAtomics::now_ns() + l.wait.span_ns;
      status = comm::wait<RelaxedAtomics>(flag, epoch, l.wait.stop, end, seen);
      if (bulk) cuda::proxy_fence_global();
    } else if (bulk && !(mutable_here && l.mutant == Mutant::no_proxy_fence)) {
      status = cuda::wait_for_bulk(l.wait, place, flag, epoch);
    } else {
      status = cuda::wait(l.wait, place, flag, epoch);
    }
  }
  return __syncthreads_or(status != comm::WaitStatus::reached ? 1 : 0) == 0;
}

template <Landing kLanding>
__device__ inline void send_as(const Litmus& l, cuda::BulkRing<kRingDepth>& ring, std::byte* to,
                               const std::byte* from) {
  if (l.send == Send::bulk) {
    if (threadIdx.x != 0) return;
    const cuda::PiecesOf pieces{to, from, l.bytes, ring.piece_bytes};
    ring.run<kLanding>(pieces.count(), pieces);
    return;
  }
  const Crew crew{static_cast<int>(threadIdx.x), kThreads};
  nap(l, threadIdx.x / 32, 1);
  if constexpr (kLanding == Landing::copy)
    cuda::copy_by_threads(crew, to, from, l.bytes);
  else
    cuda::add_by_threads<kLanding>(crew, to, from, l.bytes);
}

__device__ inline void send(const Litmus& l, cuda::BulkRing<kRingDepth>& ring, std::byte* to,
                            const std::byte* from) {
  switch (l.payload) {
    case Payload::copy: return send_as<Landing::copy>(l, ring, to, from);
    case Payload::add_bf16: return send_as<Landing::add_bf16>(l, ring, to, from);
    case Payload::add_fp16: return send_as<Landing::add_fp16>(l, ring, to, from);
    case Payload::add_fp32: return send_as<Landing::add_fp32>(l, ring, to, from);
  }
}

/// Orders the data before the flag, then raises the flag. Mutants leave out a step.
__device__ inline void publish_sent(const Litmus& l, comm::Flag* flag, std::uint32_t epoch) {
  if (l.mutant == Mutant::flag_first) return;
  if (l.send == Send::bulk) {
    if (threadIdx.x != 0) return;
    if (l.mutant == Mutant::read_wait)
      cuda::ptx::store_wait_read<0>();
    else if (l.mutant != Mutant::no_bulk_wait)
      cuda::bulk_complete();
    raise_flag(l, flag, epoch);
  } else if (l.mutant == Mutant::none) {
    cuda::publish(Crew{static_cast<int>(threadIdx.x), kThreads}, 0, flag, epoch);
  } else {
    if (l.mutant != Mutant::no_barrier) __syncthreads();
    if (threadIdx.x == 0) raise_flag(l, flag, epoch);
  }
}

__device__ inline void produce(const Litmus& l, int lane, std::byte* pieces,
                               std::uint64_t* barriers) {
  using cuda::ptx::shared_address;
  cuda::BulkRing<kRingDepth> ring{shared_address(pieces), shared_address(barriers),
                                  kMaxLaneBytes / kRingDepth};
  if (threadIdx.x == 0) ring.init();
  std::byte* const staging = l.staging + static_cast<std::size_t>(lane) * kMaxLaneBytes;
  const bool bulk = l.send == Send::bulk;
  for (std::uint32_t c = l.first + 1; c != l.first + 1 + l.rounds; ++c) {
    for (int j = 1; j < l.ranks; ++j) {
      const int peer = (l.rank + j) % l.ranks;
      const auto step = static_cast<std::int32_t>(c - l.first);
      const auto index = static_cast<std::uint32_t>(lane * l.ranks + peer);
      // Round c - 2 used this slot; its data must have been read. The first two rounds do not wait.
      const std::uint32_t before = step <= 2 ? l.first : c - 2;
      if (!await(l, {cuda::Role::copy, step, lane, peer, kLanes * l.ranks + index},
                 free_flag(l, l.rank, lane, peer), before, bulk, false))
        return;
      fill(l, staging, l.rank, peer, c, lane);
      // Every thread fences its own words, since thread 0 loads all threads' words by TMA.
      if (bulk && l.mutant != Mutant::no_fill_fence) cuda::proxy_fence_global();
      __syncthreads();
      nap(l, lane, 2);
      comm::Flag* const flag = data_flag(l, peer, lane, l.rank);
      if (l.mutant == Mutant::flag_first && threadIdx.x == 0) raise_flag(l, flag, c);
      send(l, ring, slot(l, peer, c, lane, l.rank), staging);
      publish_sent(l, flag, c);
      __syncthreads();
    }
  }
  if (threadIdx.x == 0) cuda::bulk_complete();  // mutants leave stores in flight
}

/// Thread 0 fetches a slot into shared memory by TMA; all threads wait for the data.
__device__ inline void fetch(const Litmus& l, std::byte* to, const std::byte* from,
                             std::uint64_t* barrier, std::uint32_t& fetched) {
  using cuda::ptx::shared_address;
  if (threadIdx.x == 0) {
    const cuda::ptx::Shared b = shared_address(barrier);
    cuda::ptx::barrier_expect(b, static_cast<int>(l.bytes));
    cuda::bulk_load(shared_address(to), from, l.bytes, b);
  }
  cuda::ptx::barrier_wait(shared_address(barrier), static_cast<int>(fetched++ & 1U));
}

__device__ inline void tell_free(const Litmus& l, int lane, int source, std::uint32_t epoch) {
  if (threadIdx.x == 0) cuda::signal(free_flag(l, source, lane, l.rank), epoch);
}

__device__ inline void consume(const Litmus& l, int lane, std::byte* pieces,
                               std::uint64_t* barriers) {
  const bool bulk = l.reader == Reader::bulk;
  const bool sum = l.payload != Payload::copy;
  std::uint32_t fetched = 0;
  if (threadIdx.x == 0) {
    cuda::ptx::barrier_init(cuda::ptx::shared_address(barriers), 1);
    cuda::ptx::barrier_init_fence();
  }
  __syncthreads();
  for (std::uint32_t c = l.first + 1; c != l.first + 1 + l.rounds; ++c) {
    const auto step = static_cast<std::int32_t>(c - l.first);
    for (int j = 1; j < l.ranks; ++j) {
      const int source = (l.rank + l.ranks - j) % l.ranks;
      const auto index = static_cast<std::uint32_t>(lane * l.ranks + source);
      if (!await(l, {cuda::Role::load, step, lane, source, index},
                 data_flag(l, l.rank, lane, source), c, bulk, true))
        return;
      if (sum) continue;
      nap(l, threadIdx.x / 32, 3);
      std::byte* data = slot(l, l.rank, c, lane, source);
      if (bulk) fetch(l, pieces, data, barriers, fetched);
      verify(l, bulk ? pieces : data, source, c, lane);
      __syncthreads();
      tell_free(l, lane, source, c);
    }
    if (!sum) continue;
    std::byte* const data = slot(l, l.rank, c, lane, 0);
    verify(l, data, -1, c, lane);
    clear(l, data);
    __syncthreads();
    for (int p = 1; p < l.ranks; ++p) tell_free(l, lane, (l.rank + p) % l.ranks, c);
  }
}

}  // namespace tilelace::gpu_test
