// SPDX-License-Identifier: Apache-2.0
// src/backend/cuda/device/ptx.h for emulated GPUs. Each instruction acts at once or asks the
// machine to act later.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <cstdio>

#include "machine/bulk.h"
#include "machine/device.h"

/// Marks device functions, as on GPUs.
#define TILELACE_DEVICE TILELACE_WATCHED

namespace tilelace::cuda::ptx {

using Shared = std::uint32_t;
using emulated::Machine;

inline Shared shared_address(const void* p) { return emulated::shared_address(p); }

// ---- mbarriers ----
inline void barrier_init(Shared b, int arrivals) { emulated::init_barrier(b, arrivals); }
inline void barrier_init_fence() { emulated::order::fence_shared(Machine::get().knower()); }
inline void barrier_expect(Shared b, int bytes) {
  Machine::get().arrive(emulated::own_cta(), b, 1, bytes);
}
inline void barrier_arrive(Shared b) { Machine::get().arrive(emulated::own_cta(), b, 1, 0); }
inline void barrier_arrive_at(Shared b, int cta) {
  Machine::get().arrive(emulated::peer_cta(cta), b, 1, 0);
}
inline void send_word(Shared to, Shared barrier, int cta, int word) {
  emulated::send_word(to, barrier, cta, word);
}
inline bool barrier_test(Shared b, int parity) { return emulated::test_barrier(b, parity); }
inline bool barrier_try(Shared b, int parity) { return barrier_test(b, parity); }
inline void barrier_wait(Shared b, int parity) {
  Machine::get().yield();
  while (!barrier_test(b, parity))
    Machine::get().park(emulated::own_cta().mbarriers.at(b).waiters, "a wait for an mbarrier");
}

// ---- bulk tensor copies ----
inline void prefetch_map(const CUtensorMap* /*map*/) {}
inline void tensor_load(Shared dst, const CUtensorMap* map, Shared barrier, int x, int y) {
  emulated::tensor_load(dst, *map, barrier, x, y, 1U << emulated::own_cta().rank);
}
inline void tensor_load_multicast(Shared dst, const CUtensorMap* map, Shared barrier, int x, int y,
                                  std::uint16_t mask) {
  emulated::tensor_load(dst, *map, barrier, x, y, mask);
}
inline void prefetch_bulk(const void* /*from*/, std::uint32_t /*bytes*/) {}
inline void tensor_store(const CUtensorMap* map, Shared src, int x, int y) {
  emulated::tensor_store(*map, src, x, y);
}
inline void store_commit() { Machine::self().groups.emplace_back(); }
template <int N>
void store_wait_read() {
  emulated::await_stores(N, true);
}
inline void store_wait() { emulated::await_stores(0, false); }
inline void fence_shared_to_copy() { emulated::order::fence_shared(Machine::get().knower()); }

// ---- warpgroup products ----
inline void wgmma_fence() {}
inline void wgmma_commit() { emulated::commit_products(); }
template <int N>
void wgmma_wait() {
  emulated::await_products(N);
}
inline std::uint64_t operand(Shared a) {
  return static_cast<std::uint64_t>((a & 0x3FFFFU) >> 4) | std::uint64_t{1} << 16 |
         std::uint64_t{64} << 32 | std::uint64_t{1} << 62;
}

// ---- the rest ----
template <bool kTransposed>
void store_matrices(Shared a, const std::uint32_t (&r)[4]) {
  emulated::store_matrices(a, r, kTransposed);
}
inline void store_shared(Shared a, int value) { emulated::store_shared(a, &value, sizeof value); }
inline int load_shared(Shared a) {
  int value = 0;
  emulated::load_shared(a, &value, sizeof value);
  return value;
}
inline int multiprocessor() { return emulated::own_cta().multiprocessor; }
inline int thread_again() { return static_cast<int>(threadIdx.x); }
inline void want_until(const CUtensorMap* map, int end) { Machine::self().wanted = {map, end}; }
inline void pin(float& /*value*/) {}
inline std::uint32_t cycles() { return Machine::get().clock(); }
inline void sleep(std::uint32_t /*ns*/) { Machine::get().yield(); }
inline void sleep_until(std::uint32_t begin, std::uint32_t span) {
  for (std::uint32_t gone = cycles() - begin; gone < span; gone = cycles() - begin) sleep(0);
}
inline uint4 load_shared_16(Shared a) {
  uint4 v;
  emulated::load_shared(a, &v, sizeof v);
  return v;
}
TILELACE_DEVICE std::uint32_t load_where(const std::uint32_t* a, bool wanted) {
  return wanted ? *a : 0;
}
inline void store_shared_least(Shared a, int value) { emulated::store_shared_least(a, value); }
inline void sync_threads(int id, int threads) { emulated::meet_named(id, threads); }
inline bool sync_threads_all(int id, int threads, bool mine) {
  return emulated::meet_named(id, threads, mine);
}
inline void arrive_threads(int id, int threads) { emulated::meet_named(id, threads, true, false); }
inline void cluster_sync() {
  emulated::Cluster& cluster = *emulated::own_cta().cluster;
  const int threads = emulated::all_threads() * static_cast<int>(cluster.ctas.size());
  emulated::meet(cluster.meeting, threads, true, true, "a cluster's barrier");
}
inline bool elect_one() {
  emulated::meet_warp(0);
  return emulated::thread_number() % 32 == 0;
}
inline void launch_dependents() {  // takes effect once every CTA has called it or ended
  emulated::launch_dependents();
}
inline void wait_prerequisites() { emulated::wait_prerequisites(); }
template <int N>
void registers_less() {}
template <int N>
void registers_more() {}

}  // namespace tilelace::cuda::ptx
