// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilelace/plan.h"
#include "tilelace/tensor.h"

namespace tilelace {

/// Options of a group; `workers`, `link_*` and `timeout_s` must be equal on every rank.
/// With `device` cuda every rank has its own GPU, and `workers`, `link_*` and `checked` must keep
/// their defaults.
struct CommunicatorOptions {
  int workers = 0;  ///< compute workers per rank; 0: cores / ranks, at least 1
  /// Upper limit of `workers`; on a GPU it is the number of SMs that calls may use, at least 2. 0:
  /// no limit. If calls of several communicators, or of NCCL, run on one GPU at the same time,
  /// their limits must add up to at most the GPU's SMs. Count SMs in pairs, since a waiting kernel
  /// may occupy a pair for each CTA (docs/decisions/0019). Each stream then needs a hardware queue
  /// of its own (CUDA_DEVICE_MAX_CONNECTIONS, 8 by default), and all kernels must be loaded before
  /// the first call (CUDA_MODULE_LOADING=EAGER, or one launch of each kernel).
  int max_workers = 0;
  double timeout_s = 10;        ///< limit of every wait, also in the first call; > 0
  double link_bytes_per_s = 0;  ///< emulated wire: bandwidth of each rank's outgoing link; 0: off
  double link_latency_s = 0;    ///< emulated wire: latency of each transfer
  bool checked = false;         ///< record every access and report races (ranks as threads only)
  Device device = Device::cpu;  ///< where the ranks' tensors are
  int device_index = -1;        ///< cuda: the GPU to use. -1: rank r, if a thread, uses GPU r; a
                                ///< process uses the only GPU that it sees or, if it sees several,
                                ///< the GPU with the number LOCAL_RANK
  /// cuda: also maps memory for multicast, which gemm_ar with transport multimem needs. This works
  /// only with TILELACE_MULTICAST=1 in the environment, since on some machines a program that maps
  /// multicast memory can make the GPUs unusable for other programs.
  bool multicast = false;
  /// cuda: measured plans, from read_tuning() or tune(); the same table on every rank. If this is
  /// null and `tuning_file` is empty, ranks read the file that TILELACE_TUNING names in the
  /// environment, or else the installed tables for these GPUs.
  std::shared_ptr<const plan::TuningTable> tuning = nullptr;
  /// cuda: a table's file, read when ranks join. If one rank cannot read it, all ranks get an
  /// error. "off", here or in TILELACE_TUNING: no table, not even the installed ones. Empty: see
  /// `tuning` above.
  std::string tuning_file = {};
  /// cuda: a folder, made if absent, that keeps tuned plans between runs, in one file per kind of
  /// GPU and number of ranks; rank 0 reads and writes the files. Empty: no cache. A file in the
  /// folder that is not a table is logged and ignored.
  std::string cache = {};
  /// cuda: seconds (at most 3600) that the first call of a problem may spend on timing plans if no
  /// table has the problem. Later calls use the fastest plan. 0: off. Captured calls are not tuned.
  /// Results of that problem may differ in the last bits from run to run, since another plan may
  /// sum in another order. CPU ranks have nothing to tune and log this once.
  double autotune = 0;
  bool deterministic = false;  ///< true: refuse autotune, so that equal tables give equal results
};

/// A problem, and the weights that calls of this problem will use.
/// CPU ranks pack the weights in `prepare`. GPU ranks read them in place, possibly before earlier
/// work in the stream is done. Prepared weights must not change until `prepare` is called again. A
/// call may also pass other weights, whose values may change between calls: CPU ranks pack them in
/// each call, GPU ranks read them in stream order.
struct Preparation {
  Problem problem;                  ///< with the largest m that a call will have
  std::vector<TensorView> weights;  ///< one [n_i, k] for each n of the problem, or none
  PlanOptions options;              ///< options of the calls; equal on every rank
};

/// A rank's membership in a group. Movable, not copyable.
/// Thread safety: while a thread is in a call, calls of other threads on the same Communicator are
/// refused (usage error), except abort(). Different Communicators are independent.
/// After an error of kind peer, timeout or system the communicator refuses all further calls and
/// names that error. After a usage error it stays usable; but once GPU ranks have disagreed, all
/// ranks must first prepare again (below). If an exception unwinds the stack, the destructor ends
/// the group as abort() does. In a forked child the destructor does nothing.
///
/// On GPUs (options.device) calls are asynchronous on the stream in their arguments. Use one stream
/// at a time per communicator. Calls return when the work is enqueued; the next call or
/// synchronize() throws errors of that work. Calls may be captured in CUDA graphs and replayed any
/// number of times, mixed with eager calls, if every rank makes the same calls, captures and
/// replays in the same order. Calls alternate between two slots of staging; where a replay would
/// break this alternation, ranks synchronise once more on the device (at most once per replay, and
/// once per eager call after a replay). Graphs stay valid when other problems are prepared, but not
/// after ranks disagreed or after the communicator was destroyed. If ranks make different calls, or
/// one rank refuses its call, every rank gets a usage error that names a rank that differs. No
/// result has been written then, and calls are refused until all ranks prepare again.
class Communicator {
 public:
  /// Makes a group whose ranks are threads of this process. Element r of the result is rank r.
  /// Local.
  /// Errors: usage (ranks outside 1..64, wrong options), system (memory, threads).
  static std::vector<Communicator> threads(int ranks, const CommunicatorOptions& = {});

  /// Joins this process, as one rank, to a group of processes of one user on one host. They meet in
  /// the folder `directory`, which is made if absent and private to the user. Collective: returns
  /// when all ranks have joined. Errors: usage, system, timeout (a rank did not join), peer.
  static Communicator process(int rank, int ranks, const std::string& directory,
                              const CommunicatorOptions& = {});

  /// As process(), but over connected sockets: `sockets[p]` is a SOCK_SEQPACKET unix socket to rank
  /// p, or -1 for this rank. Takes ownership of the sockets. Collective. After a fork each child
  /// must close the sockets of other ranks, and the parent must close all sockets, since peers
  /// notice a rank's death by its closed sockets.
  /// Errors: as process().
  static Communicator from_sockets(int rank, std::vector<int> sockets,
                                   const CommunicatorOptions& = {});

  /// Joins this process as the rank that its launcher assigned to it: torchrun, mpirun or `tilelace
  /// launch` (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT). Collective. Errors: as
  /// process(), usage (no launcher, ranks on several hosts).
  static Communicator launched(const CommunicatorOptions& = {});

  /// An empty communicator, which is in no group. Every call but abort() is a usage error. Local.
  /// Errors: none.
  Communicator() noexcept;
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  /// This rank's number, 0 to size() - 1. Local. Errors: usage (empty communicator).
  [[nodiscard]] int rank() const;
  /// Number of ranks in the group. Local. Errors: as rank.
  [[nodiscard]] int size() const;
  /// Compute workers of this rank; on GPUs, the SMs for GEMMs. Local. Errors: as rank.
  [[nodiscard]] int workers() const;
  /// The machine that calls on this communicator are planned for. Local. Errors: as rank.
  [[nodiscard]] Machine machine() const;

  /// How this rank reaches another rank: "shared memory", "emulated wire" or, on GPUs, "peer
  /// memory". Local; on GPUs known after the first prepare. Errors: usage (not another rank of this
  /// group, a GPU rank before prepare, empty communicator).
  [[nodiscard]] std::string_view link_to(int rank) const;

  /// Allocates staging, flags and scratch memory for these problems, packs the weights, starts the
  /// workers and loads the kernels, so that calls allocate no buffer, thread or connection.
  /// Collective: every rank lists the same problems, with its own weights. May be repeated.
  /// Replaces what was prepared before; on GPUs prepare also waits until the device is idle. A call
  /// may have fewer rows, or another bias, activation or residual than the prepared problem, if the
  /// prepared staging is large enough.
  /// Memory: per rank two slots, each of the largest Plan::staging_bytes of these problems. Errors:
  /// usage (problems differ between ranks, weights do not fit, ranks share a GPU), system, peer,
  /// timeout.
  void prepare(std::span<const Preparation>);

  /// For callers that meet problems one by one. As prepare, but keeps what was prepared before and
  /// does only the work for these problems. On GPUs it waits until the device is idle; graphs stay
  /// valid. Collective, as prepare. Errors: as prepare.
  void prepare_more(std::span<const Preparation>);

  /// Makes a communicator over some of this group's ranks, numbered in the order of the list. It
  /// has the same options except `checked`, and nothing is prepared. Collective over the listed
  /// ranks only.
  /// Errors: usage (not listed, listed twice), system, peer, timeout.
  Communicator subgroup(std::span<const int> ranks);

  /// Waits until every rank has called barrier(). On GPUs only the threads wait, not the streams.
  /// Collective. Errors: peer, timeout.
  void barrier();

  /// Waits at most `bound_s` seconds (over 0, at most 1e9) until the work in `stream` (a
  /// cudaStream_t; null: the default stream) is done. The results of calls in the stream are then
  /// visible to the host. Local; on CPU ranks, whose calls are blocking, it returns at once.
  /// Errors: those of calls since the last synchronize (usage: ranks that disagree; timeout; peer;
  /// system), usage (a stream that is being captured).
  void synchronize(void* stream = nullptr, double bound_s = 300);

  /// Ends every wait of this group on every rank with an error of kind peer. Local, any thread.
  void abort() noexcept;

  /// All that the checked mode has found so far on any rank, one text per finding; empty if it has
  /// found nothing or is off. Local. Errors: usage (empty communicator).
  [[nodiscard]] std::vector<std::string> findings() const;

  struct Impl;
  /// For the library itself. Local. Errors: usage (empty communicator).
  [[nodiscard]] Impl& impl() const;

 private:
  friend struct Impl;
  explicit Communicator(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};

/// Memory with an equally large part on each rank; every rank can reach all parts. peer(r) is rank
/// r's part. Zero-filled. On GPUs it is device memory, mapped on every rank, so that kernels and
/// copies of any rank reach every part. A rank's work on the memory must have finished before the
/// rank destroys its buffer.
/// Construction is collective; the memory is freed when the last rank destroys its buffer. Errors:
/// usage (sizes differ between ranks), system, peer, timeout.
class SymmetricBuffer {
 public:
  /// Allocates `bytes` bytes (may be 0) on every rank. Collective. Errors: as above.
  SymmetricBuffer(Communicator&, std::size_t bytes);
  SymmetricBuffer(SymmetricBuffer&&) noexcept;
  SymmetricBuffer& operator=(SymmetricBuffer&&) noexcept;
  ~SymmetricBuffer();
  /// The address of this rank's part. Local. Errors: usage (the buffer was moved from).
  [[nodiscard]] void* local() const;
  /// This rank's pointer to `rank`'s part. Local. Errors: usage (no such rank; moved-from buffer).
  [[nodiscard]] void* peer(int rank) const;
  /// Size of each part in bytes, as asked for. Local. Errors: as local.
  [[nodiscard]] std::size_t bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Memory for the rank's tensors: on its GPU, or on the host for CPU ranks. Zero-filled, aligned to
/// 256 bytes, freed with this object; all work on the memory must be done by then. The memory may
/// outlive the communicator. For programs that have no allocator of their own. Local. Errors:
/// usage, system.
class DeviceBuffer {
 public:
  /// Allocates `bytes` bytes for this rank. Local. Errors: usage, system (out of memory).
  DeviceBuffer(Communicator&, std::size_t bytes);
  DeviceBuffer(DeviceBuffer&&) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&&) noexcept;
  ~DeviceBuffer();
  /// The address of the first byte. Local. Errors: usage (the buffer was moved from).
  [[nodiscard]] void* data() const;
  /// Size in bytes, as asked for. Local. Errors: as data.
  [[nodiscard]] std::size_t bytes() const;
  /// Copies `bytes` from host memory to byte `offset` of the buffer. Local, blocking; does not wait
  /// for work in the caller's streams. Errors: usage (beyond the buffer), system.
  void upload(const void* from, std::size_t bytes, std::size_t offset = 0);
  /// Copies `bytes` from byte `offset` of the buffer to host memory. Local, blocking; does not wait
  /// for work in the caller's streams: call synchronize first. Errors: usage (beyond the buffer),
  /// system.
  void download(void* to, std::size_t bytes, std::size_t offset = 0) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilelace
