// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/worker_pool.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <system_error>

#include "core/check.h"

namespace tilelace::cpu {
namespace {

/// Asks for short time slices, so that this thread runs soon after it wakes although all cores are
/// busy: the copy role works little and others wait for it. Kernels before 6.12 ignore it.
void prefer_short_slices() {
  struct {
    std::uint32_t size = 48, policy = SCHED_OTHER;
    std::uint64_t flags = 0;
    std::int32_t nice = 0;
    std::uint32_t priority = 0;
    std::uint64_t runtime_ns = 100'000, deadline_ns = 0, period_ns = 0;
  } attributes;
  static_assert(sizeof(attributes) == 48);
  attributes.nice = getpriority(PRIO_PROCESS, 0);  // as it was
  syscall(SYS_sched_setattr, 0, &attributes, 0U);
}

}  // namespace

WorkerPool::WorkerPool(int threads) {
  try {
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this, i, threads] { serve(i + 1, i + 1 == threads); });
  } catch (const std::system_error& e) {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    start_.notify_all();
    for (auto& t : threads_) t.join();
    raise(ErrorKind::system,
          "communicator: only {} of {} worker threads could start ({}): ask for fewer workers, or "
          "raise the limit of threads (ulimit -u)",
          threads_.size(), threads, e.what());
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (auto& t : threads_) t.join();
}

void WorkerPool::run(const std::function<void(int)>& job) {
  {
    const std::scoped_lock lock(mutex_);
    job_ = &job;
    running_ = static_cast<int>(threads_.size());
    ++round_;
  }
  start_.notify_all();
  job(0);
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this] { return running_ == 0; });
}

void WorkerPool::serve(int index, bool urgent) {
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // short naps end on time
  if (urgent) prefer_short_slices();
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    start_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    const auto* job = job_;
    lock.unlock();
    (*job)(index);
    lock.lock();
    if (--running_ == 0) finished_.notify_one();
  }
}

}  // namespace tilelace::cpu
