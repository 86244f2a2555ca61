// SPDX-License-Identifier: Apache-2.0
#include "ranks.h"

#include <fmt/core.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "core/check.h"
#include "machine.h"
#include "ranks_internal.h"

namespace tilelace::cli {
namespace {

struct Message {
  int rank = 0;
  MessageKind kind = MessageKind::data;
  std::string text;
};

/// Ranks put, the starter takes.
class Inbox {
 public:
  /// False once nobody takes any more.
  bool put(Message message) {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    messages_.push_back(std::move(message));
    ready_.notify_one();
    return true;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  std::deque<Message> take(double seconds) {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, std::chrono::duration<double>(seconds),
                    [this] { return !messages_.empty(); });
    return std::exchange(messages_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<Message> messages_;
  bool closed_ = false;
};

int severity(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::system: return 3;
    case ErrorKind::usage: return 2;
    case ErrorKind::timeout: return 1;
    case ErrorKind::peer: break;
  }
  return 0;
}

void run_thread(const RankWork& work, Communicator member, int rank, Inbox& inbox) {
  const auto failure = guarded(work, member, [&](const std::string& text) {
    if (!inbox.put({rank, MessageKind::data, text}))
      raise(ErrorKind::peer, "rank {}: the run has already ended because of another error", rank);
  });
  // The others would wait for this rank up to their bound.
  if (failure) member.abort();
  member = Communicator();
  inbox.put({rank, failure ? MessageKind::failed : MessageKind::done,
             failure ? pack_error(*failure) : std::string()});
}

/// Threads cannot be ended from outside, so that a stall ends the process.
[[noreturn]] void give_up(double seconds) {
  fmt::print(stderr, "tilelace: no rank has made progress for {:.0f} s\n", seconds);
  std::_Exit(3);
}

/// Until every rank is done; throws the cause when one failed.
void listen(const RanksOptions& options, Inbox& inbox, const Listener& listener) {
  FirstCause cause;
  double heard = seconds_now();
  for (int left = options.ranks; left > 0;) {
    for (const Message& m : inbox.take(0.1)) {
      heard = seconds_now();
      if (m.kind == MessageKind::failed) cause.add(unpack_error(m.text));
      if (m.kind != MessageKind::data) --left;
      if (m.kind == MessageKind::data && !m.text.empty()) listener.on_message(m.rank, m.text);
    }
    if (seconds_now() - heard > stall_seconds(options)) give_up(stall_seconds(options));
    listener.on_idle();
  }
  cause.throw_if_any();
}

}  // namespace

std::optional<Error> guarded(const RankWork& work, Communicator& member, const Send& send) {
  try {
    work(member, send);
    return std::nullopt;
  } catch (const Error& e) {
    return e;
  } catch (const std::bad_alloc&) {
    return Error(ErrorKind::system, "out of memory for these sizes: take smaller ones");
  } catch (const std::exception& e) {
    return Error(ErrorKind::system, e.what());
  }
}

void FirstCause::add(const Error& error) {
  if (!best_ || severity(error.kind()) > severity(best_->kind())) best_ = error;
}

void FirstCause::throw_if_any() const {
  if (best_) throw Error(*best_);
}

std::string pack_error(const Error& error) {
  return std::string(1, static_cast<char>('0' + static_cast<int>(error.kind()))) + error.what();
}

Error unpack_error(const std::string& text) {
  const int kind = text.empty() ? 2 : text[0] - '0';
  return {kind >= 1 && kind <= 4 ? static_cast<ErrorKind>(kind) : ErrorKind::system,
          text.empty() ? "unknown" : text.substr(1)};
}

void run_threads(const RanksOptions& options, const RankWork& work, const Listener& listener) {
  auto members = Communicator::threads(options.ranks, options.group);
  Inbox inbox;
  std::vector<std::thread> threads;
  for (int r = 0; r < options.ranks; ++r) {
    threads.emplace_back(run_thread, std::cref(work), std::move(members[static_cast<size_t>(r)]), r,
                         std::ref(inbox));
  }
  try {
    listen(options, inbox, listener);
  } catch (...) {
    inbox.close();  // each rank ends at its next message, and its peers with it
    for (auto& t : threads) t.join();
    throw;
  }
  for (auto& t : threads) t.join();
}

void run_ranks(const RanksOptions& options, const RankWork& work, const Listener& listener) {
  if (options.processes) {
    run_processes(options, work, listener);
  } else {
    run_threads(options, work, listener);
  }
}

}  // namespace tilelace::cli
