// SPDX-License-Identifier: Apache-2.0
// Where the threads of a group meet: each brings a part, and the last to arrive combines the parts.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/deadline.h"

namespace tilelace::comm {

/// Result of a meeting, which all threads share.
struct Round {
  std::vector<std::string> parts;  ///< what each rank brought, by rank
  std::shared_ptr<void> product;   ///< what Finish returned
};

class Rendezvous {
 public:
  /// The last thread to arrive calls Finish with all parts. If Finish throws an Error, all threads
  /// throw this Error.
  using Finish = std::function<std::shared_ptr<void>(const std::vector<std::string>&)>;
  /// Called from time to time while waiting, with the missing ranks; throws to give up.
  using Check = std::function<void(const std::vector<int>& missing)>;

  explicit Rendezvous(int ranks) : seats_(static_cast<std::size_t>(ranks)) {}

  /// Waits until every rank has arrived with the same op. Errors: usage (different ops; this rank
  /// is already here), Failure of kind timeout, and what Finish and Check throw.
  std::shared_ptr<const Round> meet(int rank, std::string_view op, std::string part,
                                    const Finish& finish, const Deadline& deadline,
                                    const Check& check);

 private:
  struct Seat {
    bool taken = false;
    std::string op;
    std::string part;
    std::uint64_t gave_up = 0;  ///< 0, or the number of ranks that had stopped waiting, with it
  };
  struct Outcome {
    std::shared_ptr<const Round> round;
    std::optional<std::pair<ErrorKind, std::string>> error;
  };

  void close_round(const Finish& finish);
  void await(std::unique_lock<std::mutex>& lock, std::string_view op, const Deadline& deadline,
             const Check& check);
  /// Those who are not here. Of those who stopped waiting, the first `given_up` ones alone.
  [[nodiscard]] std::vector<int> missing(std::uint64_t given_up = kAll) const;

  static constexpr std::uint64_t kAll = ~std::uint64_t{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Seat> seats_;
  std::uint64_t generation_ = 0;
  std::uint64_t given_up_ = 0;  ///< ranks that stopped waiting
  Outcome last_;                ///< released by the last thread that reads it
  std::size_t unread_ = 0;      ///< threads that still have to read last_
};

}  // namespace tilelace::comm
