// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/worker_pool.h"

#include <sys/prctl.h>

#include <system_error>

#include "core/check.h"

namespace tilelace::cpu {

WorkerPool::WorkerPool(int threads) {
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this, i] { serve(i + 1); });
  } catch (const std::system_error& e) {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    start_.notify_all();
    for (auto& t : threads_) t.join();
    raise(ErrorKind::system, "communicator: worker threads: got {} ({}), expected {}",
          threads_.size(), e.what(), threads);
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

void WorkerPool::serve(int index) {
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // short naps end on time
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
