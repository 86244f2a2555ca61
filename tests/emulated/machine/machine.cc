// SPDX-License-Identifier: Apache-2.0
#include "machine/machine.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "machine/driver.h"

namespace tilelace::emulated {
namespace {

constexpr std::size_t kStackBytes = 128 * 1024;
constexpr unsigned kMostThreads = 2048;
constexpr std::size_t kMostShared = 228 * 1024, kReserved = 1024;  // of a multiprocessor, of a CTA

int setting(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr && std::atoi(text) > 0 ? std::atoi(text) : otherwise;
}

std::byte* map_memory(std::size_t bytes) {
  std::byte* const p = map_region(bytes);
  if (p == nullptr) {
    std::perror("emulated GPUs: memory");
    std::abort();
  }
  return p;
}

/// A CTA's shared memory.
std::byte* map_shared() {
  constexpr std::size_t kBytes = 256 * 1024;
  std::byte* const p = map_memory(kBytes);
  order::add_region(p, kBytes, {.shared = true});
  return p;
}

unsigned count(const Index3& i) { return i.x * i.y * i.z; }

volatile std::sig_atomic_t asked = 0;

}  // namespace

Fiber* Machine::running_ = nullptr;
thread_local bool Machine::is_machine_ = false;

bool Op::has_triggered() const {
  return done || (launch && started && launch->triggered == static_cast<int>(count(launch->grid)));
}

Machine& Machine::get() {
  static auto* const machine = new Machine;  // never ends: others may still be waiting
  return *machine;
}

Machine::Machine()
    : random_(static_cast<unsigned>(setting("TILELACE_EMULATED_SEED", 1))),
      capability_(setting("TILELACE_EMULATED_CAPABILITY", 90)) {
  const auto devices = static_cast<std::size_t>(setting("TILELACE_EMULATED_GPUS", 4));
  const auto each = static_cast<std::size_t>(setting("TILELACE_EMULATED_MULTIPROCESSORS", 16));
  places_.assign(devices, std::vector<Multiprocessor>(each));
  std::signal(SIGUSR1, [](int) { asked = 1; });
  thread_ = std::thread([this] { run(); });
  thread_.detach();
}

void Machine::enqueue(const std::shared_ptr<Op>& op) {
  locked([&] {
    op->host = host_;
    ops_.push_back(op);
    dirty_ = true;
  });
}

void Machine::locked(const std::function<void()>& what) {
  ++callers_;
  const std::scoped_lock lock(mutex_);
  --callers_;
  what();
  work_.notify_one();
}

void Machine::await(const std::shared_ptr<Op>& op) {
  if (!op) return;
  ++callers_;
  std::unique_lock lock(mutex_);
  --callers_;
  done_.wait(lock, [&] { return op->done; });
  see(*op);
}

bool Machine::is_done(const std::shared_ptr<Op>& op) {
  bool done = true;
  locked([&] {
    done = !op || op->done;
    if (op && done) see(*op);
  });
  return done;
}

void Machine::await_device(int device) {
  ++callers_;
  std::unique_lock lock(mutex_);
  --callers_;
  const std::vector<std::shared_ptr<Op>> before(ops_.begin(), ops_.end());
  done_.wait(lock, [&] {
    return std::all_of(before.begin(), before.end(),
                       [&](const auto& op) { return op->done || op->device != device; });
  });
  for (const auto& op : before)
    if (op->done) see(*op);
}

void Machine::run() {
  is_machine_ = true;
  std::unique_lock lock(mutex_);
  for (;;) {
    if (callers_ > 0) {
      lock.unlock();
      while (callers_ > 0) std::this_thread::yield();
      lock.lock();
    }
    if (asked != 0) {
      asked = 0;
      report();
    }
    if (dirty_) start_ops();
    bool went_on = false;
    for (int i = 0; i < 200 && step(); ++i) went_on = true;
    if (order::is_on() && sites::advance(false)) order::forget_all();
    if (went_on || dirty_) continue;
    if (!ctas_.empty()) {
      std::fprintf(stderr, "emulated GPUs: nothing can go on\n");
      report();
      std::abort();
    }
    if (order::is_on() && ops_.empty() && sites::advance(true)) order::forget_all();
    work_.wait(lock, [&] { return dirty_; });
  }
}

bool Machine::step() {
  if (ready_.empty() && tasks_.empty()) return false;
  ++steps_;
  if (!tasks_.empty() && (ready_.empty() || random_() % 4 == 0)) {
    const std::size_t i = random_() % tasks_.size();
    std::swap(tasks_[i], tasks_.back());
    Task task = std::move(tasks_.back());
    tasks_.pop_back();
    task.run();
    if (task.cta != nullptr && --task.cta->under_way == 0 && task.cta->threads == 0)
      end_cta(*task.cta);
  } else {
    const std::size_t i = random_() % ready_.size();
    std::swap(ready_[i], ready_.back());
    Fiber& fiber = *ready_.back();
    ready_.pop_back();
    resume(fiber);
  }
  return true;
}

void Machine::start_ops() {
  dirty_ = false;
  bool some = false;
  for (const auto& op : ops_) {
    if (!op->started) {
      const bool may = std::all_of(op->after.begin(), op->after.end(), [&](const auto& before) {
        return before->done || (before == op->early && before->has_triggered());
      });
      if (!may) continue;
      op->started = true;
      if (op->host) op->begin = *op->host;
      for (const auto& before : op->after)
        op->begin.join(before->done ? before->end : before->begin);
      if (op->launch) {
        op->launch->left = static_cast<int>(count(op->launch->grid));
      } else {
        tasks_.push_back({nullptr, [this, op] {
                            act(*op);
                            finish(*op);
                            done_.notify_all();
                          }});
      }
    }
    if (op->launch && !op->done) {
      place(op);
      if (op->early && op->early->done) wake(op->launch->waiters);
      if (op->launch->left == 0 && (!op->early || op->early->done)) {
        finish(*op);
        some = true;
      }
    }
  }
  ops_.remove_if([](const auto& op) { return op->done; });
  if (some) done_.notify_all();
}

void Machine::finish(Op& op) {
  if (op.launch) sites::end_kernel();
  op.end.join(op.begin);
  if (op.early) op.end.join(op.early->end);
  op.done = dirty_ = true;
  op.after.clear();  // or all that ever ran would stay
  op.early.reset();
}

void Machine::place(const std::shared_ptr<Op>& op) {
  while (op->launch->placed < static_cast<int>(count(op->launch->grid)) && place_cluster(*op))
    continue;
}

bool Machine::place_cluster(Op& op) {
  Launch& launch = *op.launch;
  auto& places = places_.at(static_cast<std::size_t>(op.device));
  const std::size_t shared = launch.shared + kReserved;
  const unsigned threads = count(launch.block);
  std::vector<std::size_t> free;
  for (std::size_t i = 0; i < places.size(); ++i)
    if (places[i].threads + threads <= kMostThreads && places[i].shared + shared <= kMostShared)
      free.push_back(i);
  const auto size = static_cast<std::size_t>(launch.cluster);
  if (free.size() < size) return false;
  auto cluster = std::make_shared<Cluster>();
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t at = i + random_() % (free.size() - i);
    std::swap(free[i], free[at]);
    places[free[i]].threads += threads;
    places[free[i]].shared += shared;
    ctas_.push_back(std::make_unique<Cta>());
    Cta& cta = *ctas_.back();
    cta.op = &op;
    const auto number = static_cast<unsigned>(launch.placed++);
    cta.block = {number % launch.grid.x, number / launch.grid.x % launch.grid.y,
                 number / launch.grid.x / launch.grid.y};
    cta.multiprocessor = static_cast<int>(free[i]);
    cta.cluster = cluster;
    cta.rank = static_cast<int>(i);
    cluster->ctas.push_back(&cta);
  }
  for (Cta* cta : cluster->ctas) begin_cta(*cta);
  return true;
}

void Machine::begin_cta(Cta& cta) {
  const Launch& launch = *cta.op->launch;
  if (memories_.empty()) memories_.push_back(map_shared());
  cta.memory = memories_.back();
  memories_.pop_back();
  cta.used = launch.shared;
  std::memset(cta.memory, 0xFE, launch.shared);  // NaNs
  cta.threads = static_cast<int>(count(launch.block));
  cta.warps.resize(static_cast<std::size_t>(cta.threads + 31) / 32);
  for (int t = 0; t < cta.threads; ++t) {
    auto fiber = std::make_unique<Fiber>();
    const auto n = static_cast<unsigned>(t);
    fiber->cta = &cta;
    fiber->thread = {n % launch.block.x, n / launch.block.x % launch.block.y,
                     n / launch.block.x / launch.block.y};
    ++cta.warps[n / 32].lanes;
    make_ready(*fiber);
    cta.fibers.push_back(std::move(fiber));
  }
  if (order::is_on()) begin_order(cta);
}

void Machine::make_ready(Fiber& fiber) {
  if (fiber.ready) return;
  fiber.ready = true;
  fiber.where = "no wait";
  ready_.push_back(&fiber);
}

boost::context::stack_context Stacks::allocate() {
  void* stack = nullptr;
  if (free().empty()) {
    stack = map_memory(kStackBytes);
  } else {
    stack = free().back();
    free().pop_back();
  }
  boost::context::stack_context made;
  made.size = kStackBytes;
  made.sp = static_cast<std::byte*>(stack) + kStackBytes;
  return made;
}
void Stacks::deallocate(boost::context::stack_context& stack) {
  free().push_back(static_cast<std::byte*>(stack.sp) - kStackBytes);
}
std::vector<void*>& Stacks::free() {
  static auto* const all = new std::vector<void*>;
  return *all;
}

void Machine::resume(Fiber& fiber) {
  fiber.ready = false;
  if (!fiber.begun) {
    fiber.begun = true;
    fiber.context = boost::context::fiber(std::allocator_arg, Stacks(),
                                          [this, &fiber](boost::context::fiber&& home) {
                                            home_ = std::move(home);
                                            fiber.cta->op->launch->body();
                                            end_fiber(fiber);
                                            return std::move(home_);
                                          });
  }
  running_ = &fiber;
  boost::context::fiber left = std::move(fiber.context).resume();
  if (left) fiber.context = std::move(left);
  running_ = nullptr;
  for (Cta* cta : ended_)
    if (cta->under_way == 0) end_cta(*cta);
  ended_.clear();
}

void Machine::leave() { home_ = std::move(home_).resume(); }

void Machine::end_fiber(Fiber& fiber) {
  Cta& cta = *fiber.cta;
  fiber.ended = true;
  Warp& warp = warp_of(fiber);
  --warp.order.live;
  if (--warp.lanes > 0 && warp.here == warp.lanes) pass(warp);
  if (--cta.threads == 0) ended_.push_back(&cta);
}

void Machine::end_cta(Cta& cta) {
  trigger(cta);
  Op& op = *cta.op;
  if (order::is_on()) end_order(cta);
  Multiprocessor& place = places_.at(static_cast<std::size_t>(op.device))
                              .at(static_cast<std::size_t>(cta.multiprocessor));
  place.threads -= count(op.launch->block);
  place.shared -= op.launch->shared + kReserved;
  --op.launch->left;
  dirty_ = true;
  std::memset(cta.memory, 0xFD, cta.used);
  memories_.push_back(cta.memory);
  cta.cluster->ctas[static_cast<std::size_t>(cta.rank)] = nullptr;
  ctas_.remove_if([&](const auto& other) { return other.get() == &cta; });
}

void Machine::trigger(Cta& cta) {
  if (cta.triggered) return;
  cta.triggered = true;
  ++cta.op->launch->triggered;
  dirty_ = true;
}

void Machine::run_plain(const Index3& grid, const Index3& block,
                        const std::function<void()>& body) {
  Op op;
  op.launch = std::make_unique<Launch>();
  op.launch->grid = grid;
  op.launch->block = block;
  Cta cta;
  cta.op = &op;
  Fiber fiber;
  fiber.cta = &cta;
  fiber.knower = acting_;
  running_ = &fiber;
  for (cta.block.y = 0; cta.block.y < grid.y; ++cta.block.y)
    for (cta.block.x = 0; cta.block.x < grid.x; ++cta.block.x)
      for (fiber.thread.x = 0; fiber.thread.x < block.x; ++fiber.thread.x) body();
  running_ = nullptr;
}

void Machine::yield() {
  Fiber& fiber = self();
  make_ready(fiber);
  leave();
}

void Machine::park(Waiters& list, const char* where) {
  Fiber& fiber = self();
  fiber.where = where;
  list.push_back(&fiber);
  leave();
}

void Machine::wake(Waiters& list) {
  for (Fiber* fiber : list) make_ready(*fiber);
  list.clear();
}

void Machine::later(Cta* cta, std::function<void()> task) {
  if (cta != nullptr) ++cta->under_way;
  tasks_.push_back({cta, std::move(task)});
}

void Machine::arrive(Cta& cta, std::uint32_t barrier, int arrivals, long bytes) {
  const auto at = cta.mbarriers.find(barrier);
  if (at == cta.mbarriers.end()) {
    std::fprintf(stderr, "emulated GPUs: an arrival at shared address %u, where no barrier is\n",
                 barrier);
    std::abort();
  }
  Mbarrier& b = at->second;
  if (is_running()) {
    look_at(cta, barrier);
    remember_arrival(cta, barrier);
    order::give(knower(), b.gathered);
  }
  b.pending -= arrivals;
  b.bytes += bytes;
  if (b.pending < 0) {
    std::fprintf(stderr, "emulated GPUs: more arrivals at barrier %u than its %d\n", barrier,
                 b.count);
    std::abort();
  }
  if (b.pending > 0 || b.bytes != 0) return;
  ++b.phase;
  b.pending = b.count;
  b.passed = std::move(b.gathered);
  b.gathered = {};
  wake(b.waiters);
}

void Machine::look_at(Cta& cta, std::uint32_t barrier) {
  if (order::is_on())
    order::touch(knower(), order::Access::read, cta.at(barrier), 8, __builtin_return_address(0));
}

void Machine::remember_arrival(Cta& cta, std::uint32_t barrier) {
  if (!order::is_on() || running_->cta == &cta) return;
  const Actor self = knower().self;
  cta.mbarriers.at(barrier).others[self.number] = self;
}

void Machine::arrive(Cta& cta, std::uint32_t barrier, long bytes, const Asked& copy) {
  if (copy.knows != nullptr) {
    order::touch(copy, order::Access::read, cta.at(barrier), 8);
    order::give(copy.by, cta.mbarriers.at(barrier).gathered);
  }
  arrive(cta, barrier, 0, bytes);
}

/// Where everything is, on SIGUSR1 or when nothing can go on.
void Machine::report() const {
  std::fprintf(stderr, "emulated GPUs: %zu threads ready, %zu tasks, step %llu\n", ready_.size(),
               tasks_.size(), static_cast<unsigned long long>(steps_));
  for (const auto& op : ops_)
    std::fprintf(stderr, "  device %d: %s%s%s\n", op->device,
                 !op->launch ? "an action"
                 : op->early ? "an early kernel"
                             : "a kernel",
                 op->started ? ", started" : "",
                 op->launch ? (", " + std::to_string(op->launch->placed) + " CTAs placed, " +
                               std::to_string(op->launch->left) + " left")
                                  .c_str()
                            : "");
  for (const auto& cta : ctas_) {
    std::map<std::string, int> places;
    for (const auto& fiber : cta->fibers)
      if (!fiber->ended)
        ++places["warp " + std::to_string(fiber->thread.x / 32) + " " + fiber->where];
    std::fprintf(stderr, "  device %d, CTA %u, %d threads:", cta->op->device, cta->block.x,
                 cta->threads);
    for (const auto& [where, n] : places) std::fprintf(stderr, " %d in %s", n, where.c_str());
    std::fprintf(stderr, "\n");
  }
}

std::byte* dynamic_shared() { return Machine::self().cta->memory; }

std::byte* declared_shared(const void* key, std::size_t bytes, std::size_t alignment) {
  Cta& cta = *Machine::self().cta;
  const auto [at, is_new] = cta.declared.try_emplace(key, 0);
  if (is_new) {
    at->second = (cta.used + alignment - 1) / alignment * alignment;
    cta.used = at->second + bytes;
    if (cta.used > Machine::kSharedBytes) {
      std::fprintf(stderr, "emulated GPUs: %zu bytes of shared memory, expected at most %zu\n",
                   cta.used, Machine::kSharedBytes);
      std::abort();
    }
    std::memset(cta.memory + at->second, 0xFE, bytes);
  }
  return cta.memory + at->second;
}

}  // namespace tilelace::emulated
