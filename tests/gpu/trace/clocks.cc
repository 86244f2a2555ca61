// SPDX-License-Identifier: Apache-2.0
#include "clocks.h"

#include "backend/cuda/base/cuda_check.h"
#include "clocks_kernel.h"
#include "core/check.h"

namespace tilelace::gpu_test {
namespace {

using cuda::check;

constexpr int kRounds = 2000;

}  // namespace

ClockOffset clock_offset(const Rank& rank) {
  const auto memory = comm::allocate_device(*rank.group, rank.device, 4096, kMeetSeconds);
  void* pinned = nullptr;
  check(cudaMallocHost(&pinned, sizeof(ClockTrip)), "memory for a round trip");
  auto* const trip = static_cast<ClockTrip*>(pinned);
  const auto words = [&](int of) { return reinterpret_cast<ClockWords*>(memory->peer(of)); };
  ClockOffset offset;
  for (int other = 1; other < rank.ranks; ++other) {
    const bool begins = rank.rank == 0;
    if (begins || rank.rank == other) {
      check(cudaMemset(words(rank.rank), 0, sizeof(ClockWords)), "words of a round trip");
      check(cudaDeviceSynchronize(), "words of a round trip");
    }
    rank.meet();
    *trip = {0, 0};
    if (begins)
      check(enqueue_ping(words(0), words(other), kRounds, trip, rank.stream), "a round trip");
    else if (rank.rank == other)
      check(enqueue_pong(words(other), words(0), kRounds, rank.stream), "a round trip");
    check(cudaStreamSynchronize(rank.stream), "a round trip");
    const auto found =
        rank.gather({static_cast<double>(trip->offset_ns), static_cast<double>(trip->round_ns)});
    require(found[0][1] > 0, "clocks: got no answer from rank {}, expected one", other);
    if (rank.rank == other) offset = {found[0][0], found[0][1] / 2};
  }
  rank.meet();
  cudaFreeHost(pinned);
  return offset;
}

}  // namespace tilelace::gpu_test
