// SPDX-License-Identifier: Apache-2.0
#include "comm/rendezvous.h"

#include <fmt/format.h>

#include <chrono>

#include "comm/failure.h"
#include "comm/members.h"
#include "core/check.h"

namespace tilelace::comm {

std::vector<int> Rendezvous::missing(std::uint64_t given_up) const {
  std::vector<int> ranks;
  for (std::size_t r = 0; r < seats_.size(); ++r)
    if (!seats_[r].taken && seats_[r].gave_up <= given_up) ranks.push_back(static_cast<int>(r));
  return ranks;
}

std::shared_ptr<const Round> Rendezvous::meet(int rank, std::string_view op, std::string part,
                                              const Finish& finish, const Deadline& deadline,
                                              const Check& check) {
  std::unique_lock lock(mutex_);
  Seat& seat = seats_[static_cast<std::size_t>(rank)];
  require(!seat.taken, "{}: rank {} is already in a call of {}: make one call at a time", op, rank,
          seat.op);
  seat = {true, std::string(op), std::move(part), 0};
  if (missing().empty()) {
    close_round(finish);
  } else {
    try {
      await(lock, op, deadline, check);
    } catch (...) {
      seat = {};
      seat.gave_up = ++given_up_;
      throw;
    }
  }
  const Outcome outcome = --unread_ == 0 ? std::exchange(last_, {}) : last_;
  // A new Error each: copies of one exception would share a string between threads.
  if (outcome.error) throw Error(outcome.error->first, outcome.error->second);
  return outcome.round;
}

void Rendezvous::await(std::unique_lock<std::mutex>& lock, std::string_view op,
                       const Deadline& deadline, const Check& check) {
  const std::uint64_t mine = generation_;
  const std::uint64_t given_up = given_up_;
  while (generation_ == mine) {
    check(missing());
    if (deadline.passed()) {
      // Others whose time was over first did come, but for who came when they had left.
      std::vector<int> absent = missing(given_up);
      if (absent.empty()) absent = missing();
      throw Failure(ErrorKind::timeout, absent.front(),
                    fmt::format("{}: {} did not come within {:.3g} s", op, ranks_text(absent),
                                deadline.waited_s()));
    }
    changed_.wait_for(lock, std::chrono::milliseconds(deadline.slice_ms()));
  }
}

void Rendezvous::close_round(const Finish& finish) {
  auto round = std::make_shared<Round>();
  last_ = {};
  for (std::size_t r = 0; r < seats_.size() && !last_.error; ++r)
    if (seats_[r].op != seats_[0].op)
      last_.error = {ErrorKind::usage,
                     different_calls(0, seats_[0].op, static_cast<int>(r), seats_[r].op)};
  for (Seat& seat : seats_) {
    round->parts.push_back(std::move(seat.part));
    seat = {};
  }
  try {
    if (!last_.error && finish) round->product = finish(round->parts);
  } catch (const Error& e) {
    last_.error = {e.kind(), e.what()};
  } catch (const std::exception& e) {
    last_.error = {ErrorKind::system, e.what()};
  }
  last_.round = std::move(round);
  unread_ = seats_.size();
  ++generation_;
  changed_.notify_all();
}

}  // namespace tilelace::comm
