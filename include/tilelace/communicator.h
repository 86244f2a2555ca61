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

/// How ranks of a group behave; `workers`, `link_*` and `timeout_s` must be equal on every rank.
/// With `device` cuda every rank has a GPU of its own, and `workers`, `link_*` and `checked` stay
/// at their defaults.
struct CommunicatorOptions {
  int workers = 0;  ///< compute workers a rank; 0: cores / ranks, at least 1
  /// The budget that `workers` must fit; on a GPU the multiprocessors that calls may take, at least
  /// 2. 0: no limit. Communicators whose calls may be under way at once (on several streams of a
  /// GPU, beside NCCL's) need budgets that fit it together, counted by pairs of multiprocessors: a
  /// kernel that waits may keep a pair with each CTA of its own (docs/decisions/0019). Their
  /// streams need a hardware queue each (CUDA_DEVICE_MAX_CONNECTIONS, 8 unless set), and kernels
  /// loaded before (CUDA_MODULE_LOADING=EAGER, or a first launch before the first call).
  int max_workers = 0;
  double timeout_s = 10;        ///< bound of every wait, the first call's included; > 0
  double link_bytes_per_s = 0;  ///< emulated wire: bandwidth of each rank's outgoing link; 0: none
  double link_latency_s = 0;    ///< emulated wire: latency of each transfer
  bool checked = false;         ///< record every access and report races (ranks as threads only)
  Device device = Device::cpu;  ///< where the ranks' tensors are
  int device_index = -1;        ///< cuda: the GPU of the process's rank; -1: that of the rank's
                                ///< number (threads) or of the launcher's LOCAL_RANK (processes),
                                ///< the only one where a process sees but one
  /// cuda: memory is mapped for multicast, too, which gemm_ar by transport multimem takes. Only
  /// with TILELACE_MULTICAST=1 in the environment as well: on some machines a program that makes
  /// such memory can take the GPUs away from others.
  bool multicast = false;
  /// cuda: measured plans, from read_tuning() or tune(); the same table on every rank. Without one
  /// and without `tuning_file` the file that TILELACE_TUNING in the environment names, else the
  /// tables that came with this build and fit the GPUs.
  std::shared_ptr<const plan::TuningTable> tuning = nullptr;
  /// cuda: a table as a file, read when ranks join: that one of them cannot is an error on all.
  /// "off", here or in TILELACE_TUNING: none, nor those that came with this build. Empty: as above.
  std::string tuning_file = {};
  /// cuda: a folder, made if absent, that keeps what is tuned from one run to the next, a file for
  /// each kind of GPU and number of ranks; rank 0 reads and writes it. Empty: none. A file in it
  /// that is no table is said and left out.
  std::string cache = {};
  /// cuda: seconds (to 3600) that the first call of a problem which no table has may take to time
  /// plans, on all ranks together; its own row decides from then on. 0: off. A call that is
  /// captured is not tuned. Results of that problem may differ in their last bits from one run to
  /// the next: a plan fixes the order of sums. CPU ranks have nothing to tune, and say so once.
  double autotune = 0;
  bool deterministic = false;  ///< true: autotune must be 0, so that runs with equal tables agree
};

/// A problem with the weights that its calls will use.
/// The weights are packed in `prepare` and must keep their values until it is called again. GPU
/// ranks read them where they are, also ahead of what is in the stream. Calls may come with other
/// weights, which may be written until the call: CPU ranks pack them anew in each call, GPU ranks
/// read them in the stream's order.
struct Preparation {
  Problem problem;                  ///< m is the largest that calls will have
  std::vector<TensorView> weights;  ///< one [n_i, k] for each n of the problem, or none
  PlanOptions options;              ///< of the calls; equal on every rank
};

/// A rank's membership in a group. Movable, not copyable.
/// Thread safety: calls on one Communicator from several threads are refused (usage error) except
/// abort(), which any thread may call. Different Communicators are independent.
/// After an error of kind peer, timeout or system the communicator refuses further calls with the
/// first reason; after a usage error it stays usable: on CPU ranks also when ranks disagreed, on
/// GPUs then once all ranks have prepared again (below).
/// Destroyed while an exception unwinds, it ends the group for its peers as abort() does. Destroyed
/// in a process that was forked from its own, it does nothing.
///
/// On GPUs (options.device) calls are asynchronous on the stream that comes with their arguments,
/// one stream at a time for a communicator: they return when the work is enqueued, and what goes
/// wrong in it is thrown by the next call or by synchronize(). Calls may be captured in CUDA
/// graphs, which then run as often as wanted, between eager calls: the same calls, captures and
/// replays in the same order on every rank. Where the two slots of calls would come out of turn,
/// ranks meet once more on the device: at most once a replay, and, once there are graphs, at most
/// once an eager call that comes after a replay. Graphs stay good when other problems are prepared,
/// which leaves them their staging, but not after ranks disagreed, nor longer than the
/// communicator. Where ranks turn out to make different calls, or one rank is refused a call that
/// the others make, every rank gets a usage error that names another one, nothing has been written,
/// and calls are refused until all prepare again.
class Communicator {
 public:
  /// All ranks of a group as members of this process; element r is rank r, to be used by one
  /// thread each. Local. Errors: usage (ranks outside 1..64, options), system (memory, threads).
  static std::vector<Communicator> threads(int ranks, const CommunicatorOptions& = {});

  /// This process as one rank of a group of processes of one host and user, which meet in
  /// `directory` (private to the user, made if absent). Collective: returns when all ranks are
  /// there. Errors: usage, system, timeout (a rank did not come), peer.
  static Communicator process(int rank, int ranks, const std::string& directory,
                              const CommunicatorOptions& = {});

  /// As process(), over sockets that are connected already: `sockets[p]` is a SOCK_SEQPACKET
  /// unix socket to rank p, -1 at the own place. Takes ownership of them. Collective.
  /// After a fork each child closes the sockets of the other ranks, the parent closes all: a rank's
  /// death is seen by its sockets hanging up. Errors: as process().
  static Communicator from_sockets(int rank, std::vector<int> sockets,
                                   const CommunicatorOptions& = {});

  /// This process as the rank that its launcher says: torchrun, mpirun or `tilelace launch` (RANK,
  /// WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT). Collective. Errors: as process(), usage
  /// (no launcher, ranks on several hosts).
  static Communicator launched(const CommunicatorOptions& = {});

  /// A member of nothing: every call but abort() is a usage error. Local. Errors: none.
  Communicator() noexcept;
  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  /// This member's number, 0 to size() - 1. Local. Errors: usage (a member of nothing).
  [[nodiscard]] int rank() const;
  /// Number of ranks in the group. Local. Errors: as rank.
  [[nodiscard]] int size() const;
  /// Compute workers of this rank; GPUs: multiprocessors for products. Local. Errors: as rank.
  [[nodiscard]] int workers() const;
  /// The machine that plans of its calls are made for. Local. Errors: as rank.
  [[nodiscard]] Machine machine() const;

  /// What reaches another rank: "shared memory", "emulated wire" or, on GPUs, "peer memory". Local;
  /// on GPUs it is chosen in the first prepare. Errors: usage (no other rank of this group, a GPU
  /// rank before prepare, a member of nothing).
  [[nodiscard]] std::string_view link_to(int rank) const;

  /// Sizes staging and flags for these problems, makes scratch, packs the weights, starts the
  /// workers, loads the kernels; later calls make no buffer, thread or connection. Collective:
  /// every rank lists the same problems (each its own weights). May be repeated; what was prepared
  /// before is then replaced, and on GPUs the device's work is waited for. Memory: two slots of
  /// max(plan.staging_bytes) a rank, see Plan::staging_formula. Errors: usage (problems differ
  /// between ranks, weights do not fit, ranks share a GPU), system, peer, timeout.
  void prepare(std::span<const Preparation>);

  /// As prepare, but what was prepared before stays, and the cost is that of these problems alone:
  /// for callers who learn of problems one by one. On GPUs the device's work is waited for; graphs
  /// stay good. Collective, as prepare. Errors: as prepare.
  void prepare_more(std::span<const Preparation>);

  /// A communicator over some of this group's ranks, listed in their new order, with this one's
  /// options but `checked`, and nothing prepared. Collective over the listed ranks only. Errors:
  /// usage (not listed, listed twice), system, peer, timeout.
  Communicator subgroup(std::span<const int> ranks);

  /// Waits until every rank is here; on GPUs the ranks' threads, not their streams. Collective.
  /// Errors: peer, timeout.
  void barrier();

  /// Waits until the work in `stream` (a cudaStream_t; null: the default stream) is done, at most
  /// `bound_s` seconds (more than 0, to 1e9); what the calls in it wrote is then visible to the
  /// host. Local; on CPU ranks, whose calls return when they are done, it returns at once. Errors:
  /// what went wrong in calls since the last one (usage: ranks that disagree; timeout; peer;
  /// system), usage (a stream that is being captured).
  void synchronize(void* stream = nullptr, double bound_s = 300);

  /// Ends every wait of this group on every rank with an error of kind peer. Local, any thread.
  void abort() noexcept;

  /// What the checked mode found since the start, on all ranks, a text each (empty: nothing, or the
  /// mode is off). Local. Errors: usage (a member of nothing).
  [[nodiscard]] std::vector<std::string> findings() const;

  struct Impl;
  /// The library's own. Local. Errors: usage (a member of nothing).
  [[nodiscard]] Impl& impl() const;

 private:
  friend struct Impl;
  explicit Communicator(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl_;
};

/// Memory of equal size on every rank that every rank can reach; peer(r) is rank r's part.
/// Zero-filled. On GPUs it is device memory, mapped for this rank's GPU, so that kernels and copies
/// of any rank reach every part; its own work on it must be done before it is destroyed.
/// Collective to make; freed when the last rank lets go of it.
/// Errors: usage (sizes differ between ranks), system, peer, timeout.
class SymmetricBuffer {
 public:
  /// `bytes` on every rank, 0 too. Collective. Errors: as above.
  SymmetricBuffer(Communicator&, std::size_t bytes);
  SymmetricBuffer(SymmetricBuffer&&) noexcept;
  SymmetricBuffer& operator=(SymmetricBuffer&&) noexcept;
  ~SymmetricBuffer();
  /// This rank's part. Local. Errors: usage (the buffer was moved from).
  [[nodiscard]] void* local() const;
  /// That rank's part, as this rank reaches it. Local. Errors: usage (no such rank; as local).
  [[nodiscard]] void* peer(int rank) const;
  /// Size of each part in bytes, as asked for. Local. Errors: as local.
  [[nodiscard]] std::size_t bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Memory where the rank's tensors are: on its GPU, or the host's on CPU ranks. Zero-filled,
/// aligned to 256 bytes, freed with this object, when work on it must be done; it may outlive the
/// communicator. For programs that have no allocator of their own. Local. Errors: usage, system.
class DeviceBuffer {
 public:
  /// `bytes` for this rank. Local. Errors: usage, system (no such memory left).
  DeviceBuffer(Communicator&, std::size_t bytes);
  DeviceBuffer(DeviceBuffer&&) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&&) noexcept;
  ~DeviceBuffer();
  /// The first byte. Local. Errors: usage (the buffer was moved from).
  [[nodiscard]] void* data() const;
  /// Size in bytes, as asked for. Local. Errors: as data.
  [[nodiscard]] std::size_t bytes() const;
  /// Copies `bytes` from host memory to `offset` bytes behind the first. Local, blocking; waits for
  /// no stream of the caller. Errors: usage (beyond the buffer), system.
  void upload(const void* from, std::size_t bytes, std::size_t offset = 0);
  /// Copies `bytes` from `offset` bytes behind the first to host memory. Local, blocking; waits for
  /// no stream of the caller: call synchronize before it. Errors: usage (beyond the buffer),
  /// system.
  void download(void* to, std::size_t bytes, std::size_t offset = 0) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tilelace
