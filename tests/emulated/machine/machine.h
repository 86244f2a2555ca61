// SPDX-License-Identifier: Apache-2.0
// Emulates GPUs on the host's cores. Every thread of a kernel is a fiber. One host thread, the
// machine, switches between the fibers in random order. It also performs what a GPU does
// asynchronously (bulk copies, products, copies and kernels of other streams), each at a random
// time that the program allows. A missing wait therefore shows sooner or later. A missing fence
// does not, because memory is ordered as strongly as the host's (but see machine/order.h).
#pragma once
#include <array>
#include <atomic>
#include <boost/context/fiber.hpp>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "machine/order.h"
#include "machine/sites.h"

namespace tilelace::emulated {

struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};

struct Cta;
struct Fiber;
using Waiters = std::vector<Fiber*>;

/// A meeting of threads: a named barrier of a CTA, or the barrier of a cluster.
struct Meeting {
  int here = 0;
  bool all = true, kept = true;  ///< `all`: all votes are true so far; `kept`: the previous `all`
  unsigned round = 0;
  Waiters waiters;
  std::vector<Knower*> came;  ///< threads that arrived and wait
  Given left;                 ///< knowledge (order.h) of threads that arrived and did not wait
};

/// A warp, whose lanes exchange values.
struct Warp {
  int lanes = 0, here = 0;  ///< `lanes`: lanes that have not ended; `here`: lanes in an exchange
  unsigned round = 0;
  std::array<std::array<std::uint64_t, 32>, 2> values{};
  std::array<std::uint32_t, 2> mask{};
  Waiters waiters;
  Lanes order;
  std::vector<Knower*> came;
};

struct Mbarrier {
  int count = 0, pending = 0;
  long bytes = 0;
  unsigned phase = 0;
  Waiters waiters;
  Given gathered, passed;  ///< `gathered`: knowledge of this phase; `passed`: of the previous phase
  Arrivals others;         ///< arrivals from other CTAs
};

/// A group of a thread's bulk stores.
struct BulkGroup {
  int reads = 0, writes = 0;
  std::uint32_t sent = 0, stored = 0;  ///< last store's steps: read (`sent`) and write (`stored`)
};

/// The threads of a warpgroup.
using Threads = const std::unique_ptr<Fiber>*;

/// One thread's part of a product that a warpgroup has requested.
struct Product {
  float* d = nullptr;
  std::uint64_t a = 0, b = 0;
  bool keep = false;
  /// Computes the i-th product of the oldest group, for all threads of the warpgroup.
  void (*run)(Threads, std::size_t i) = nullptr;
};

struct Fiber {
  boost::context::fiber context;  ///< valid while the fiber does not run
  bool begun = false;
  Cta* cta = nullptr;
  Index3 thread;
  bool ready = false, ended = false;
  std::deque<std::vector<Product>> products{1};  ///< groups to compute; the last group is open
  std::uint64_t committed = 0, multiplied = 0;   ///< numbers of groups committed and multiplied
  std::list<BulkGroup> groups{1};                ///< groups of bulk stores; the last group is open
  Waiters waiters;                               ///< this fiber, while it waits for its bulk stores
  Knower knower;
  Actor loads, sends, stores;               ///< `sends`, `stores`: reads and writes of bulk stores
  Actor products_of;                        ///< first thread only: the products of its warpgroup
  std::vector<std::uint32_t> multiplies;    ///< step of each group's last product
  std::deque<std::vector<Asked>> asked{1};  ///< first thread only: an entry per group in `products`
  std::pair<const void*, int> wanted;       ///< a tensor map and the end of the rows needed from it
  const char* where = "";
};

struct Op;

/// A launch of a kernel, and its state.
struct Launch {
  Index3 grid{1, 1, 1}, block{1, 1, 1};
  int cluster = 1;
  std::size_t shared = 0;  ///< dynamic shared bytes of each CTA
  std::function<void()> body;
  int placed = 0, left = 0,
      triggered = 0;  ///< CTAs: `left` have not ended, `triggered` have let the next kernel start
  Waiters waiters;    ///< fibers that wait for the previous kernel
};

struct Cluster {
  std::vector<Cta*> ctas;
  Meeting meeting;
};

struct Cta {
  Op* op = nullptr;
  Index3 block;
  int multiprocessor = 0;
  std::shared_ptr<Cluster> cluster;
  int rank = 0;  ///< rank in the cluster
  std::byte* memory = nullptr;
  std::size_t used = 0;
  std::map<const void*, std::size_t> declared;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Warp> warps;
  std::array<Waiters, 8> warpgroups;  ///< per warpgroup: threads that wait for the others' commits
  std::array<Meeting, 16> barriers;
  std::unordered_map<std::uint32_t, Mbarrier> mbarriers;
  int threads = 0, under_way = 0;  ///< threads not ended; `under_way`: bulk operations in flight
  bool triggered = false;

  [[nodiscard]] std::byte* at(std::uint32_t shared) const { return memory + shared; }
};

/// An operation of a stream or a graph. It starts when all operations in `after` are done. One of
/// these, `early`, need not be done if its kernel has let the next kernel start.
struct Op {
  int device = 0;
  std::vector<std::shared_ptr<Op>> after;
  std::shared_ptr<Op> early;
  std::function<void()> action;    ///< the operation, done in one step; empty: see `launch`
  std::unique_ptr<Launch> launch;  ///< the kernel to run if `action` is empty
  bool started = false, done = false;
  std::shared_ptr<const Clocks> host;  ///< what the host knew when it enqueued the operation
  Clocks begin, end;                   ///< what has ended, as known when the operation begins, ends

  [[nodiscard]] bool has_triggered() const;
};

/// The number of a fiber's thread in its CTA.
inline unsigned number_of(const Fiber& f) {
  const Index3& block = f.cta->op->launch->block;
  return f.thread.x + block.x * (f.thread.y + block.y * f.thread.z);
}
inline Warp& warp_of(const Fiber& f) { return f.cta->warps[number_of(f) / 32]; }

struct Multiprocessor {
  unsigned threads = 0;
  std::size_t shared = 0;
};

/// Stacks that fibers reuse.
class Stacks {
 public:
  boost::context::stack_context allocate();               // NOLINT: as Boost calls it
  void deallocate(boost::context::stack_context& stack);  // NOLINT

 private:
  static std::vector<void*>& free();
};

class Machine {
 public:
  static Machine& get();

  [[nodiscard]] int devices() const { return static_cast<int>(places_.size()); }
  [[nodiscard]] int multiprocessors() const { return static_cast<int>(places_.at(0).size()); }
  /// The compute capability: 10 * major + minor.
  [[nodiscard]] int capability() const { return capability_; }

  // ---- host threads ----
  void enqueue(const std::shared_ptr<Op>& op);
  void await(const std::shared_ptr<Op>& op);
  bool is_done(const std::shared_ptr<Op>& op);
  void await_device(int device);
  /// Runs `what` under the machine's lock.
  void locked(const std::function<void()>& what);

  // ---- fibers ----
  static Fiber& self() { return *running_; }
  /// Whether the caller is a fiber. (Host threads run the same templates as kernels.)
  static bool is_running() { return is_machine_ && running_ != nullptr; }
  /// The running lane, or the running operation of a stream.
  Knower& knower();
  [[nodiscard]] static order::Scope scope(bool wide) {
    return {is_running() ? self().cta->op->device : -1, wide};
  }
  /// Lets other fibers run.
  void yield();
  /// Waits in `list` until wake(list). The caller must then check its condition again.
  void park(Waiters& list, const char* where);
  void wake(Waiters& list);
  /// Runs a task at a random later time, for the CTA that requested it.
  void later(Cta* cta, std::function<void()> task);
  void arrive(Cta& cta, std::uint32_t barrier, int arrivals, long bytes);
  /// Records a read of the barrier, so that the check finds a read before its initialisation.
  void look_at(Cta& cta, std::uint32_t barrier);
  /// Records an arrival at a barrier of another CTA. That CTA must not end before the arrival.
  void remember_arrival(Cta& cta, std::uint32_t barrier);
  /// Called when bytes of a bulk copy have arrived.
  void arrive(Cta& cta, std::uint32_t barrier, long bytes, const Asked& copy);
  void trigger(Cta& cta);
  /// Called when all lanes of the warp have come to an exchange.
  void pass(Warp& warp);
  /// Runs at once, thread after thread, a kernel whose threads do not wait for each other.
  void run_plain(const Index3& grid, const Index3& block, const std::function<void()>& body);
  std::uint64_t random() { return random_(); }
  [[nodiscard]] std::uint32_t clock() const { return static_cast<std::uint32_t>(steps_ * 16); }

  static constexpr std::size_t kSharedBytes = 227 * 1024;

 private:
  Machine();
  void run();
  bool step();
  void start_ops();
  void finish(Op& op);
  void act(Op& op);
  void see(const Op& op);
  void begin_order(Cta& cta);
  static void end_order(Cta& cta);
  void place(const std::shared_ptr<Op>& op);
  bool place_cluster(Op& op);
  void begin_cta(Cta& cta);
  void resume(Fiber& fiber);
  void leave();
  void end_fiber(Fiber& fiber);
  void end_cta(Cta& cta);
  void make_ready(Fiber& fiber);
  void report() const;

  static Fiber* running_;
  static thread_local bool is_machine_;
  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::atomic<int> callers_{0};
  std::mt19937_64 random_;
  int capability_;
  std::uint64_t steps_ = 0;
  bool dirty_ = false;
  std::list<std::shared_ptr<Op>> ops_;
  std::vector<std::vector<Multiprocessor>> places_;
  std::list<std::unique_ptr<Cta>> ctas_;
  std::vector<Cta*> ended_;
  std::vector<Fiber*> ready_;
  struct Task {
    Cta* cta;
    std::function<void()> run;
  };
  std::vector<Task> tasks_;
  std::vector<std::byte*> memories_;
  std::shared_ptr<const Clocks> host_ = std::make_shared<Clocks>();
  Knower acting_;
  Lanes acting_lanes_;
  boost::context::fiber home_;
  std::thread thread_;
};

/// Dynamic shared memory of the running fiber's CTA.
std::byte* dynamic_shared();
std::byte* declared_shared(const void* key, std::size_t bytes, std::size_t alignment);

/// Calls the kernel at this address with the parameters at `params`; for cudaLaunchKernelExC.
using Call = void (*)(const void* kernel, const void* params);
const void* add_kernel(const void* kernel, std::size_t bytes, Call call);

}  // namespace tilelace::emulated
