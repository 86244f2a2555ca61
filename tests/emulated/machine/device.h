// SPDX-License-Identifier: Apache-2.0
// Replaces nvcc's built-ins, so that a host compiler can compile kernels. Every kernel source
// includes this file first. This file includes the runtime's headers before it defines __CUDACC__,
// so that they are compiled as in host code.
#pragma once
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "machine/bulk.h"
#include "machine/machine.h"

/// For functions whose accesses count as the caller's. Inlining is needed for two reasons.
/// ThreadSanitizer misses a store through a reference that a call returns. And the linker keeps one
/// copy of a function that is not inlined, maybe one compiled without ThreadSanitizer.
#define TILELACE_WATCHED inline __attribute__((always_inline))
/// For functions whose accesses are atomic, or are reported in another way.
#define TILELACE_UNWATCHED __attribute__((no_sanitize("thread")))

#define __CUDACC__ 1
#undef __device__
#undef __host__
#undef __global__
#undef __forceinline__
#undef __launch_bounds__
#undef __maxnreg__
#undef __grid_constant__
#define __device__
#define __host__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __grid_constant__

namespace tilelace::emulated {

/// A built-in variable of the running thread.
template <Index3 (*kOf)(), unsigned Index3::*kPart>
struct Own {
  operator unsigned() const { return kOf().*kPart; }  // NOLINT: stands for a variable
};
template <Index3 (*kOf)()>
struct Own3 {
  Own<kOf, &Index3::x> x;
  Own<kOf, &Index3::y> y;
  Own<kOf, &Index3::z> z;
};
inline Index3 own_thread() { return Machine::self().thread; }
inline Index3 own_block() { return Machine::self().cta->block; }
inline Index3 own_grid_extent() { return Machine::self().cta->op->launch->grid; }
inline Index3 own_block_extent() { return Machine::self().cta->op->launch->block; }

}  // namespace tilelace::emulated

inline constexpr tilelace::emulated::Own3<tilelace::emulated::own_thread> threadIdx;
inline constexpr tilelace::emulated::Own3<tilelace::emulated::own_block> blockIdx;
inline constexpr tilelace::emulated::Own3<tilelace::emulated::own_grid_extent> gridDim;
inline constexpr tilelace::emulated::Own3<tilelace::emulated::own_block_extent> blockDim;

namespace tilelace::emulated {

// ---- threads that wait for each other ----
inline unsigned thread_number() { return number_of(Machine::self()); }
inline Warp& own_warp() { return warp_of(Machine::self()); }

template <class Value>
std::uint64_t bits_of(Value v) {
  static_assert(sizeof v <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &v, sizeof v);
  return bits;
}
template <class Value>
Value value_of(std::uint64_t bits) {
  Value v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}

/// Waits until all lanes of the warp have called this. Returns the index into Warp::values at which
/// their values are. Orders memory only if `orders`; shuffles and votes do not order memory.
unsigned meet_warp(std::uint64_t value, bool orders = false);
/// A barrier of `threads` threads. Returns whether `mine` is true for all. !stays: only arrives.
bool meet(Meeting& m, int threads, bool mine, bool stays, const char* where);
bool meet_named(int id, int threads, bool mine = true, bool stays = true);
inline int all_threads() {
  const Index3& b = Machine::self().cta->op->launch->block;
  return static_cast<int>(b.x * b.y * b.z);
}

// ---- shared memory: an address is an offset in the CTA's memory ----
template <class T, int kLine>
T& shared_variable() {
  static const char key = 0;
  return *reinterpret_cast<T*>(declared_shared(&key, sizeof(T), alignof(T) > 16 ? alignof(T) : 16));
}
inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(static_cast<const std::byte*>(p) - Machine::self().cta->memory);
}
inline Cta& own_cta() { return *Machine::self().cta; }
inline Cta& peer_cta(int rank) {
  Cta* const cta = own_cta().cluster->ctas.at(static_cast<std::size_t>(rank));
  if (cta == nullptr) {
    std::fprintf(stderr, "emulated GPUs: something for CTA %d of a cluster, which has ended\n",
                 rank);
    std::abort();
  }
  return *cta;
}

// ---- launches ----
template <class Params>
const void* address_of(void (*kernel)(Params)) {
  return add_kernel(reinterpret_cast<const void*>(kernel), sizeof(Params),
                    [](const void* k, const void* p) {
                      reinterpret_cast<void (*)(Params)>(reinterpret_cast<std::uintptr_t>(k))(
                          *static_cast<const std::remove_cv_t<Params>*>(p));
                    });
}

cudaError_t launch(const cudaLaunchConfig_t& config, const std::function<void()>& body);

void launch_plain(dim3 grid, dim3 block, cudaStream_t stream, const std::function<void()>& body);

template <class... Params, class... Arguments>
cudaError_t launch_ex(const cudaLaunchConfig_t* config, void (*kernel)(Params...),
                      const Arguments&... arguments) {
  return launch(*config, [kernel, held = std::tuple<std::remove_cv_t<Params>...>(arguments...)] {
    std::apply(kernel, held);
  });
}

/// The launch that nvcc writes as name<<<grid, block, shared, stream>>>.
struct LaunchAt {
  dim3 grid, block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;

  template <class Kernel, class... Arguments>
  void run(const Kernel& kernel, const Arguments&... arguments) const {
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared;
    config.stream = stream;
    launch(config,
           [kernel, held = std::tuple<Arguments...>(arguments...)] { std::apply(kernel, held); });
  }
};

/// As LaunchAt, for a kernel whose threads do not wait for each other.
struct PlainLaunchAt {
  dim3 grid, block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;

  template <class Kernel, class... Arguments>
  void run(const Kernel& kernel, const Arguments&... arguments) const {
    launch_plain(grid, block, stream, [kernel, held = std::tuple<Arguments...>(arguments...)] {
      std::apply(kernel, held);
    });
  }
};

}  // namespace tilelace::emulated

// ---- what the runtime's headers have only for nvcc ----
template <class... Params>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*kernel)(Params...)) {
  return cudaFuncGetAttributes(attributes, reinterpret_cast<const void*>(kernel));
}
template <class... Params>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Params...), cudaFuncAttribute attribute,
                                 int value) {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
template <class... Params>
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, void (*kernel)(Params...),
                                           const cudaLaunchConfig_t* config) {
  return cudaOccupancyMaxActiveClusters(clusters, reinterpret_cast<const void*>(kernel), config);
}

// ---- intrinsics ----
template <class T>
T __shfl_sync(unsigned /*mask*/, T value, int lane) {
  using namespace tilelace::emulated;
  const unsigned side = meet_warp(bits_of(value));
  return value_of<T>(own_warp().values[side][static_cast<unsigned>(lane) % 32]);
}
inline int __all_sync(unsigned /*mask*/, int mine) {
  using namespace tilelace::emulated;
  const unsigned side = meet_warp(mine != 0 ? 1 : 0);
  const Warp& w = own_warp();
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((w.mask[side] >> lane & 1U) != 0 && w.values[side][lane] == 0) return 0;
  return 1;
}
/// The mask of the lanes that take part and whose value satisfies `holds`.
template <class Holds>
unsigned lanes_that(std::uint64_t value, const Holds& holds) {
  using namespace tilelace::emulated;
  const unsigned side = meet_warp(value);
  const Warp& w = own_warp();
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if ((w.mask[side] >> lane & 1U) != 0 && holds(w.values[side][lane])) votes |= 1U << lane;
  return votes;
}
inline unsigned __ballot_sync(unsigned /*mask*/, int mine) {
  return lanes_that(mine != 0 ? 1 : 0, [](std::uint64_t other) { return other != 0; });
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline void __syncwarp(unsigned /*mask*/ = ~0U) { tilelace::emulated::meet_warp(0, true); }
inline void __syncthreads() {
  tilelace::emulated::meet_named(0, tilelace::emulated::all_threads());
}
inline int __syncthreads_and(int mine) {
  using namespace tilelace::emulated;
  return meet_named(0, all_threads(), mine != 0) ? 1 : 0;
}
inline int __syncthreads_or(int mine) {
  using namespace tilelace::emulated;
  return meet_named(0, all_threads(), mine == 0) ? 0 : 1;
}
inline void __nanosleep(unsigned /*ns*/) { tilelace::emulated::Machine::get().yield(); }
inline void cudaTriggerProgrammaticLaunchCompletion() { tilelace::emulated::launch_dependents(); }
// Fences alone order nothing here, since operations on flags release and acquire (comm/signal.h).
inline void __threadfence() {}
inline void __threadfence_system() {}
template <class T>
TILELACE_WATCHED T __ldcg(const T* p) {
  return *p;
}
template <class T>
TILELACE_WATCHED void __stcg(T* p, T v) {
  *p = v;
}
template <class T>
TILELACE_WATCHED T __ldg(const T* p) {
  return *p;
}
inline float __uint_as_float(unsigned v) { return tilelace::emulated::value_of<float>(v); }
inline unsigned __float_as_uint(float v) {
  return static_cast<unsigned>(tilelace::emulated::bits_of(v));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits) {
  return __shfl_sync(mask, value, static_cast<int>(tilelace::emulated::thread_number()) ^ bits);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, int by) {
  const int lane = static_cast<int>(tilelace::emulated::thread_number() % 32);
  return __shfl_sync(mask, value, lane < by ? lane : lane - by);
}
inline float __logf(float x) { return std::log(x); }
inline float cospif(float x) { return std::cos(3.14159265358979F * x); }
inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float x, float y) { return x / y; }
using std::erfcf;
template <class T>
TILELACE_UNWATCHED T atomicAdd(T* p, T v) {
  const T before = *p;
  *p = before + v;
  return before;
}
template <class T>
TILELACE_UNWATCHED T atomicMax(T* p, T v) {
  const T before = *p;
  if (before < v) *p = v;
  return before;
}
template <class T>
TILELACE_UNWATCHED T atomicExch(T* p, T v) {
  const T before = *p;
  *p = v;
  return before;
}
template <class T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
