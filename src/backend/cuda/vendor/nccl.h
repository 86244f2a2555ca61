// SPDX-License-Identifier: Apache-2.0
// NCCL's collectives, as a baseline and for unfused plans. libnccl is loaded when it is first used.
// Nothing here uses NVLink multicast.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "comm/group.h"
#include "tilelace/dtype.h"

namespace tilelace::cuda {

/// How a buffer is allocated and registered. plain: cudaMalloc, not registered; registered:
/// ncclMemAlloc and ncclCommRegister; window: ncclMemAlloc, registered as a symmetric window.
enum class NcclBuffer : std::uint8_t { plain, registered, window };

constexpr std::string_view name_of(NcclBuffer b) {
  switch (b) {
    case NcclBuffer::plain: return "nccl";
    case NcclBuffer::registered: return "nccl_registered";
    case NcclBuffer::window: return "nccl_window";
  }
  return "?";
}

/// libnccl's version, as ncclGetVersion gives it (22809 is 2.28.9); 0 if it cannot be loaded.
int nccl_version();

/// Device memory for an NcclGroup. No call is collective. Destroy it only when no rank uses it.
class NcclMemory {
 public:
  NcclMemory(const NcclMemory&) = delete;
  NcclMemory& operator=(const NcclMemory&) = delete;
  ~NcclMemory();
  [[nodiscard]] std::byte* data() const;
  [[nodiscard]] std::size_t bytes() const;
  /// The kind obtained. It is `registered` instead of `window` if windows are not supported.
  [[nodiscard]] NcclBuffer kind() const;

 private:
  friend class NcclGroup;
  struct Impl;
  explicit NcclMemory(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

struct NcclOptions {
  double timeout_s = 30;  ///< longest time that a call waits on the host for NCCL or a peer
  /// Whether NCCL's host functions block. If so, they have no timeout; finish() still has one.
  bool blocking = false;
  /// The most CTAs of an NCCL kernel; 0: NCCL's choice. Kernels under a limit have no clusters, so
  /// that their CTAs fit on any free SMs. A limit that the environment overrides is an error.
  int most_ctas = 0;
  /// Called before NCCL's kernels are aborted. Aborted kernels may leave data missing.
  std::function<void()> before_abort = {};
};

/// Sends bytes to one peer and receives from another at the same time; 0 bytes: no transfer.
struct NcclExchange {
  const void* from = nullptr;
  std::size_t sent = 0;
  int to_rank = 0;
  void* to = nullptr;
  std::size_t received = 0;
  int from_rank = 0;
};

/// One rank's part of an NCCL communicator. All calls must come from one thread. The collectives
/// are asynchronous, may be captured (mode relaxed) and must be called in the same order on
/// every rank; count is in elements. Errors: system (NCCL's error), peer, timeout.
class NcclGroup {
 public:
  /// Collective over `group`, which must outlive this object and its memory; bounded.
  /// NCCL_NVLS_ENABLE must be 0 in the environment. Errors: system (a rank has no library, or has
  /// not turned multicast off; every rank gets the error, which names that rank), peer, timeout.
  NcclGroup(comm::Group& group, int device, const NcclOptions& options = {});
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  /// Bounded: if NCCL does not end in time, it is aborted, and its resources stay until the process
  /// ends. Memory from allocate() may be destroyed before or after this object.
  ~NcclGroup();

  /// All ranks pass the same kind and bytes. Collective if kind is window. Errors: as all_gather.
  std::unique_ptr<NcclMemory> allocate(std::size_t bytes, NcclBuffer kind);

  /// to[ranks * count] = every rank's from[count]; in place if `from` is this rank's part of `to`.
  void all_gather(const void* from, void* to, std::size_t count, DType, cudaStream_t);
  /// to[count] = this rank's part of the sum of every rank's from[ranks * count].
  void reduce_scatter(const void* from, void* to, std::size_t count, DType, cudaStream_t);
  /// to[count] = sum of every rank's from[count].
  void all_reduce(const void* from, void* to, std::size_t count, DType, cudaStream_t);
  /// Part r of `to` = this rank's part of rank r's `from`; parts have count elements. Uses sends
  /// and receives if the library lacks ncclAlltoAll.
  void all_to_all(const void* from, void* to, std::size_t count, DType, cudaStream_t);

  /// Peers must make the matching exchanges in the same order.
  void exchange(const NcclExchange&, cudaStream_t);

  /// NCCL's error as text; empty: none. Aborts nothing.
  [[nodiscard]] std::string trouble() const;
  /// Waits until the work in `stream` is done; after `timeout_s` aborts NCCL.
  void finish(cudaStream_t stream, std::string_view what, double timeout_s);
  /// Throws if NCCL or the group has an error.
  void throw_if_failed(std::string_view what);
  /// Ends this rank's collectives and makes the communicator unusable. Bounded, never throws.
  void abort() noexcept;

 private:
  friend struct NcclMemory::Impl;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tilelace::cuda
