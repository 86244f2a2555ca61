// SPDX-License-Identifier: Apache-2.0
// GPUs played by the cores of this machine: every thread of a kernel is a fiber, and one thread of
// the process, the machine, runs them in random order, a piece at a time, with everything that a
// chip does beside them: bulk copies, products, copies and kernels of other streams, each at some
// random time that the program allows. What a kernel gets wrong by a missing wait it gets wrong
// here, too, sooner or later. Memory is as strict as the host's: fences that are missing do not
// show.
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

/// Threads that meet: a named barrier of a CTA, or the barrier of a cluster.
struct Meeting {
  int here = 0;
  bool all = true, kept = true;  ///< of those that are here; of the last meeting
  unsigned round = 0;
  Waiters waiters;
  std::vector<Knower*> came;  ///< and stay
  Given left;                 ///< by those that do not
};

/// Lanes that exchange a value each.
struct Warp {
  int lanes = 0, here = 0;  ///< that have not ended; that are here
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
  Given gathered, passed;  ///< of the phase; of the one before
  Arrivals others;         ///< of other CTAs
};

/// Bulk stores of a thread, by group.
struct BulkGroup {
  int reads = 0, writes = 0;
  std::uint32_t sent = 0, stored = 0;  ///< steps of the last one
};

/// The threads of a warpgroup.
using Threads = const std::unique_ptr<Fiber>*;

/// A product that a warpgroup has been asked for: one thread's part of it.
struct Product {
  float* d = nullptr;
  std::uint64_t a = 0, b = 0;
  bool keep = false;
  /// Of all threads: their i-th product of their oldest group.
  void (*run)(Threads, std::size_t i) = nullptr;
};

struct Fiber {
  boost::context::fiber context;  ///< while it does not run
  bool begun = false;
  Cta* cta = nullptr;
  Index3 thread;
  bool ready = false, ended = false;
  std::deque<std::vector<Product>> products{1};  ///< groups that are not done; the last is open
  std::uint64_t committed = 0, multiplied = 0;   ///< groups; those that are done
  std::list<BulkGroup> groups{1};                ///< likewise
  Waiters waiters;                               ///< itself, for its bulk stores
  Knower knower;
  Actor loads, sends, stores;               ///< in bulk: sends are the stores' reads
  Actor products_of;                        ///< of a warpgroup, its first thread's
  std::vector<std::uint32_t> multiplies;    ///< steps of those, by group
  std::deque<std::vector<Asked>> asked{1};  ///< as products, of a warpgroup's first thread
  std::pair<const void*, int> wanted;       ///< of a tensor map, rows up to this one
  const char* where = "";
};

struct Op;

/// A kernel's launch, and how far it is.
struct Launch {
  Index3 grid{1, 1, 1}, block{1, 1, 1};
  int cluster = 1;
  std::size_t shared = 0;  ///< bytes of each CTA, beside those that the kernel declares
  std::function<void()> body;
  int placed = 0, left = 0, triggered = 0;  ///< CTAs: with a place, not ended, without objection
  Waiters waiters;                          ///< for the kernel before
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
  int rank = 0;  ///< in the cluster
  std::byte* memory = nullptr;
  std::size_t used = 0;
  std::map<const void*, std::size_t> declared;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Warp> warps;
  std::array<Waiters, 8> warpgroups;  ///< for products, which all of them ask for together
  std::array<Meeting, 16> barriers;
  std::unordered_map<std::uint32_t, Mbarrier> mbarriers;
  int threads = 0, under_way = 0;  ///< not ended; bulk operations
  bool triggered = false;

  [[nodiscard]] std::byte* at(std::uint32_t shared) const { return memory + shared; }
};

/// What a stream or a graph does: once all `after` are done, or, of `early`, have nothing against
/// it.
struct Op {
  int device = 0;
  std::vector<std::shared_ptr<Op>> after;
  std::shared_ptr<Op> early;
  std::function<void()> action;    ///< at one time
  std::unique_ptr<Launch> launch;  ///< else
  bool started = false, done = false;
  std::shared_ptr<const Clocks> host;  ///< what it knew
  Clocks begin, end;                   ///< what is over then

  [[nodiscard]] bool has_triggered() const;
};

/// In its CTA.
inline unsigned number_of(const Fiber& f) {
  const Index3& block = f.cta->op->launch->block;
  return f.thread.x + block.x * (f.thread.y + block.y * f.thread.z);
}
inline Warp& warp_of(const Fiber& f) { return f.cta->warps[number_of(f) / 32]; }

struct Multiprocessor {
  unsigned threads = 0;
  std::size_t shared = 0;
};

/// Stacks that fibers have one after the other.
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
  /// Its compute capability, ten times the major and the minor.
  [[nodiscard]] int capability() const { return capability_; }

  // ---- host threads ----
  void enqueue(const std::shared_ptr<Op>& op);
  void await(const std::shared_ptr<Op>& op);
  bool is_done(const std::shared_ptr<Op>& op);
  void await_device(int device);
  /// Under the machine's lock.
  void locked(const std::function<void()>& what);

  // ---- fibers ----
  static Fiber& self() { return *running_; }
  /// Whether the caller is one: the host's threads share templates' code with kernels.
  static bool is_running() { return is_machine_ && running_ != nullptr; }
  /// The running warp, or the operation of a stream.
  Knower& knower();
  [[nodiscard]] static order::Scope scope(bool wide) {
    return {is_running() ? self().cta->op->device : -1, wide};
  }
  /// Lets others go on.
  void yield();
  /// Until somebody wakes the list; the caller looks again.
  void park(Waiters& list, const char* where);
  void wake(Waiters& list);
  /// Something that happens at some time by itself, for the CTA that asked for it.
  void later(Cta* cta, std::function<void()> task);
  void arrive(Cta& cta, std::uint32_t barrier, int arrivals, long bytes);
  /// Somebody does something with the barrier, which must be there for it.
  void look_at(Cta& cta, std::uint32_t barrier);
  /// Of another CTA of the cluster: that one may not be gone when it happens.
  void remember_arrival(Cta& cta, std::uint32_t barrier);
  /// Bytes of a bulk copy have come.
  void arrive(Cta& cta, std::uint32_t barrier, long bytes, const Asked& copy);
  void trigger(Cta& cta);
  /// All of its lanes are here.
  void pass(Warp& warp);
  /// A kernel whose threads wait for nobody: one after the other, at one time.
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

/// Of the running fiber's CTA.
std::byte* dynamic_shared();
std::byte* declared_shared(const void* key, std::size_t bytes, std::size_t alignment);

/// Kernels by their addresses, as the runtime launches them.
using Call = void (*)(const void* kernel, const void* params);
const void* add_kernel(const void* kernel, std::size_t bytes, Call call);

}  // namespace tilelace::emulated
