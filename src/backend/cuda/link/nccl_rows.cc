// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/link/nccl_rows.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "backend/cuda/base/cuda_check.h"
#include "core/check.h"

namespace tilelace::cuda {
namespace {

constexpr auto kLook = std::chrono::milliseconds(2);
constexpr std::size_t kGreeting = 16;  ///< bytes

/// A stream and a few bytes for the first exchange with every peer.
struct FirstMeeting {
  cudaStream_t stream = nullptr;
  std::byte* bytes = nullptr;

  explicit FirstMeeting(int ranks) {
    void* memory = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream for NCCL");
    const cudaError_t made = cudaMalloc(&memory, 2 * kGreeting * static_cast<std::size_t>(ranks));
    bytes = static_cast<std::byte*>(memory);
    if (made != cudaSuccess) cudaStreamDestroy(stream);
    check(made, "memory for NCCL");
  }
  FirstMeeting(const FirstMeeting&) = delete;
  FirstMeeting& operator=(const FirstMeeting&) = delete;
  ~FirstMeeting() {
    cudaFree(bytes);
    cudaStreamDestroy(stream);
  }
};

}  // namespace

struct NcclRows::Impl {
  WaitControl& control;
  comm::Group& group;
  NcclGroup nccl;
  std::mutex calls;  ///< on `nccl`
  std::mutex end;
  std::condition_variable ending;
  bool done = false;
  std::string why;  ///< NCCL's words, if it was the one to fail
  std::thread watch;

  Impl(comm::Group& g, int device, WaitControl& c, int most_ctas, double timeout_s)
      : control(c),
        group(g),
        nccl(g, device, {timeout_s, false, most_ctas, [this] { stop(ErrorKind::system); }}) {
    FirstMeeting first(g.ranks());
    for (int i = 1; i < g.ranks(); ++i) {
      const int to = (g.rank() + i) % g.ranks();
      const int from = (g.rank() + g.ranks() - i) % g.ranks();
      std::byte* const at = first.bytes + 2 * kGreeting * static_cast<std::size_t>(i);
      nccl.exchange({at, kGreeting, to, at + kGreeting, kGreeting, from}, first.stream);
    }
    nccl.finish(first.stream, "ag_gemm: the first exchange", timeout_s);
    watch = std::thread([this] { look(); });
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    {
      const std::lock_guard lock(end);
      done = true;
    }
    ending.notify_one();
    watch.join();
  }

  /// The first reason stays.
  void stop(ErrorKind kind) {
    const auto self = static_cast<std::uint16_t>(group.rank());
    control.stop({static_cast<std::uint8_t>(kind), self, self});
  }

  /// NCCL's kernels wait for peers without a bound: they are ended once a wait of ours has failed,
  /// a peer is gone or NCCL says that something is wrong.
  void look() {
    std::unique_lock lock(end);
    while (!ending.wait_for(lock, kLook, [&] { return done; })) {
      const std::lock_guard mine(calls);
      why = nccl.trouble();
      if (why.empty() && !control.stopped()) continue;
      const auto self = static_cast<std::uint16_t>(group.rank());
      if (!why.empty()) group.abort({static_cast<std::uint8_t>(ErrorKind::system), self, self});
      nccl.abort();
      return;
    }
  }
};

NcclRows::NcclRows(comm::Group& group, int device, WaitControl& control, int most_ctas,
                   double timeout_s)
    : impl_(std::make_unique<Impl>(group, device, control, most_ctas, timeout_s)) {}

NcclRows::~NcclRows() = default;

void NcclRows::exchange(const NcclExchange& what, cudaStream_t stream) {
  const std::lock_guard mine(impl_->calls);
  if (!impl_->why.empty()) raise(ErrorKind::system, "ag_gemm: NCCL failed: {}", impl_->why);
  impl_->nccl.exchange(what, stream);
}

}  // namespace tilelace::cuda
