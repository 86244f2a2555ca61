// SPDX-License-Identifier: Apache-2.0
// One-line wrappers of the sm_90 instructions that C++ has no name for. Shared memory is always
// given by 32-bit addresses.
#pragma once
#include <cuda.h>

#include <cstdint>

#define TILELACE_DEVICE __device__ __forceinline__

namespace tilelace::cuda::ptx {

using Shared = std::uint32_t;

TILELACE_DEVICE Shared shared_address(const void* p) {
  return static_cast<Shared>(__cvta_generic_to_shared(p));
}

// ---- mbarriers ----
TILELACE_DEVICE void barrier_init(Shared b, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(b), "r"(arrivals));
}
/// Makes initialised barriers visible to the cluster and to TMA.
TILELACE_DEVICE void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
TILELACE_DEVICE void barrier_expect(Shared b, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(bytes)
               : "memory");
}
TILELACE_DEVICE void barrier_arrive(Shared b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory");
}
/// Arrives at the same barrier in another CTA of the cluster.
TILELACE_DEVICE void barrier_arrive_at(Shared b, int cta) {
  asm volatile(
      "{\n.reg .b32 r;\nmapa.shared::cluster.u32 r, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [r];\n}" ::"r"(b),
      "r"(cta)
      : "memory");
}
/// Sends a word to the same place in another CTA of the cluster (or in this one), where its bytes
/// count at the same barrier. Only for kernels that are launched with clusters.
TILELACE_DEVICE void send_word(Shared to, Shared barrier, int cta, int word) {
  asm volatile(
      "{\n.reg .b32 t, b;\nmapa.shared::cluster.u32 t, %0, %2;\n"
      "mapa.shared::cluster.u32 b, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [t], %3, [b];\n}" ::"r"(to),
      "r"(barrier), "r"(cta), "r"(word)
      : "memory");
}
/// Whether the phase has ended. Does not wait.
TILELACE_DEVICE bool barrier_test(Shared b, int parity) {
  std::uint32_t done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.b32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(b), "r"(parity)
      : "memory");
  return done != 0;
}
TILELACE_DEVICE bool barrier_try(Shared b, int parity) {
  std::uint32_t done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.b32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(b), "r"(parity)
      : "memory");
  return done != 0;
}
/// Waits for the end of the phase, at most for some minutes; then the kernel gives wrong results
/// instead of hanging. Waits for peers have shorter bounds and report failures. (A trap in a role's
/// branch would make ptxas ignore the register count of that role.)
TILELACE_DEVICE void barrier_wait(Shared b, int parity) {
  if (barrier_try(b, parity)) return;
  for (std::uint32_t n = 0; n < (1U << 28); ++n)
    if (barrier_try(b, parity)) return;
}

// ---- bulk tensor copies ----
TILELACE_DEVICE void prefetch_map(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
TILELACE_DEVICE void tensor_load(Shared dst, const CUtensorMap* map, Shared barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4}], [%2];" ::"r"(dst),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}
/// Loads to the same place in every CTA of the mask and completes on each such CTA's `barrier`.
TILELACE_DEVICE void tensor_load_multicast(Shared dst, const CUtensorMap* map, Shared barrier,
                                           int x, int y, std::uint16_t mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(dst),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(mask)
      : "memory");
}
/// Fetches bytes of global memory into the L2 cache; address and length are multiples of 16.
TILELACE_DEVICE void prefetch_bulk(const void* from, std::uint32_t bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}
TILELACE_DEVICE void tensor_store(const CUtensorMap* map, Shared src, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
      "r"(src), "r"(x), "r"(y)
      : "memory");
}
TILELACE_DEVICE void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Waits until at most N bulk groups still read shared memory.
template <int N>
TILELACE_DEVICE void store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
/// Waits until all bulk groups have written their data.
TILELACE_DEVICE void store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
/// Makes what this thread sees in shared memory readable by TMA.
TILELACE_DEVICE void fence_shared_to_copy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- warpgroup products ----
TILELACE_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TILELACE_DEVICE void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int N>
TILELACE_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}
/// Descriptor of a K-major operand with 128-byte swizzle; groups of 8 rows are 1024 bytes apart.
TILELACE_DEVICE std::uint64_t operand(Shared a) {
  return static_cast<std::uint64_t>((a & 0x3FFFFU) >> 4) | std::uint64_t{1} << 16 |
         std::uint64_t{64} << 32 | std::uint64_t{1} << 62;
}

// ---- the rest ----
template <bool kTransposed>
TILELACE_DEVICE void store_matrices(Shared a, const std::uint32_t (&r)[4]) {
  if constexpr (kTransposed)
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(a),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
  else
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(a),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}
TILELACE_DEVICE void store_shared(Shared a, int value) {
  asm volatile("st.shared.s32 [%0], %1;" ::"r"(a), "r"(value) : "memory");
}
TILELACE_DEVICE int load_shared(Shared a) {
  int value;
  asm volatile("ld.volatile.shared.s32 %0, [%1];" : "=r"(value) : "r"(a) : "memory");
  return value;
}
TILELACE_DEVICE int multiprocessor() {
  int id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}
/// Reads threadIdx.x again. A value kept from the kernel's start would take a register.
TILELACE_DEVICE int thread_again() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
}
/// Does nothing on a GPU. It tells the tests' emulated GPUs that bulk loads through `map` may read
/// rows from `end` on while a peer writes them, and that no stored result depends on these rows.
TILELACE_DEVICE void want_until(const CUtensorMap* /*map*/, int /*end*/) {}
/// Keeps the compiler from moving the computation of the value across this line.
TILELACE_DEVICE void pin(float& value) { asm volatile("" : "+f"(value)::"memory"); }
TILELACE_DEVICE std::uint32_t cycles() {
  std::uint32_t c;
  asm volatile("mov.u32 %0, %%clock;" : "=r"(c)::"memory");
  return c;
}
TILELACE_DEVICE void sleep(std::uint32_t ns) { asm volatile("nanosleep.u32 %0;" ::"r"(ns)); }
/// Sleeps until `span` cycles after `begin`, in ever shorter steps. A warp that polls the clock
/// takes power, which at the device's power limit slows down the MMAs.
TILELACE_DEVICE void sleep_until(std::uint32_t begin, std::uint32_t span) {
  for (std::uint32_t gone = cycles() - begin; gone < span; gone = cycles() - begin)
    sleep((span - gone) / 2);  // a sleep may take twice its time; a cycle is under a ns
}
TILELACE_DEVICE uint4 load_shared_16(Shared a) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(a)
               : "memory");
  return v;
}
/// If `wanted`, loads a word of global memory past the L1 cache; if not, returns 0 without a load.
TILELACE_DEVICE std::uint32_t load_where(const std::uint32_t* a, bool wanted) {
  std::uint32_t value;
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.u32 p, %2, 0;\nmov.u32 %0, 0;\n@p ld.global.cg.u32 %0, [%1];\n}"
      : "=r"(value)
      : "l"(a), "r"(wanted ? 1U : 0U)
      : "memory");
  return value;
}
/// Atomically replaces the value at `a` by `value` if `value` is smaller.
TILELACE_DEVICE void store_shared_least(Shared a, int value) {
  asm volatile("red.shared.min.s32 [%0], %1;" ::"r"(a), "r"(value) : "memory");
}
TILELACE_DEVICE void sync_threads(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// Like sync_threads. Returns whether `mine` is true for all threads at the barrier.
TILELACE_DEVICE bool sync_threads_all(int id, int threads, bool mine) {
  std::uint32_t all;
  asm volatile(
      "{\n.reg .pred p, q;\nsetp.ne.u32 p, %3, 0;\nbarrier.cta.red.and.pred q, %1, %2, p;\n"
      "selp.b32 %0, 1, 0, q;\n}"
      : "=r"(all)
      : "r"(id), "r"(threads), "r"(mine ? 1U : 0U)
      : "memory");
  return all != 0;
}
TILELACE_DEVICE void arrive_threads(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
TILELACE_DEVICE void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}
/// True for one lane of a converged warp, always the same lane. The compiler knows this code and
/// makes no loop over lanes for the addresses of bulk copies that follow.
TILELACE_DEVICE bool elect_one() {
  std::uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.b32 %0, 1, 0, p;\n}"
               : "=r"(elected));
  return elected != 0;
}
/// Lets the next kernel of the stream start its prologue.
TILELACE_DEVICE void launch_dependents() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
/// Waits until the previous kernel has ended and its writes are visible.
TILELACE_DEVICE void wait_prerequisites() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
template <int N>
TILELACE_DEVICE void registers_less() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
TILELACE_DEVICE void registers_more() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

}  // namespace tilelace::cuda::ptx
