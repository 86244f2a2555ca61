// SPDX-License-Identifier: Apache-2.0
// The number of the running call, and how a rank enters the call. Kernels count calls themselves;
// the host never passes the number.
#pragma once
#include "backend/cuda/device/call_params.h"
#include "backend/cuda/device/headers.h"

namespace tilelace::cuda {

/// The number of the running call. Called by: any thread, after the previous kernel has ended and,
/// in a call's last kernel, before the last CTA calls count_call.
TILELACE_DEVICE std::uint32_t call_number(const CallParams& c) {
  return *static_cast<const volatile comm::Flag*>(&c.counter->done) + 1;
}

/// Tells every peer that this rank has entered the call. Called by: one warp of the call's first
/// kernel, once the previous kernel, and thereby every earlier call, has ended.
TILELACE_DEVICE void send_headers(const CallParams& c, std::uint32_t epoch) {
  const unsigned own =
      (epoch & 1U) * static_cast<unsigned>(c.ranks) + static_cast<unsigned>(c.rank);
  for (int i = 1 + (static_cast<int>(threadIdx.x) & 31); i < c.ranks; i += 32) {
    const int peer = (c.rank + i) % c.ranks;
    auto* const headers = reinterpret_cast<comm::Header*>(c.base + peer * c.stride + c.headers);
    comm::signal<comm::CudaAtomics>(headers + own, epoch, c.hash);
  }
}

/// The last CTA that calls this counts the call. Called by: one thread of every CTA of the call's
/// last kernel, once no thread of the CTA will read the number again.
TILELACE_DEVICE void count_call(const CallParams& c, std::uint32_t epoch) {
  CallCounter* const counter = c.counter;
  if (comm::CudaDeviceAtomics::add(&counter->passed, 1U) + 1 != gridDim.x) return;
  counter->passed = 0;
  counter->next[(epoch + 1) & 1U] = epoch + 1;
  counter->done = epoch;
}

/// Verb admit. Waits for all peers. Returns whether they make the same call. Called by: one warp.
TILELACE_DEVICE bool wait_admission(const CallParams& c, std::uint32_t epoch) {
  const auto* headers =
      reinterpret_cast<const comm::Header*>(c.base + c.rank * c.stride + c.headers);
  return wait_headers(c.wait, headers, c.rank, c.ranks, epoch, c.hash);
}

}  // namespace tilelace::cuda
