// SPDX-License-Identifier: Apache-2.0
// What stands behind a Communicator.
#pragma once
#include <sys/types.h>

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "comm/group.h"
#include "core/env.h"
#include "core/recent.h"
#include "op/kept_tuning.h"
#include "tilelace/communicator.h"
#include "tilelace/error.h"
#include "tilelace/tune.h"

namespace tilelace {

struct Communicator::Impl {
  Impl(std::unique_ptr<comm::Group>, const CommunicatorOptions&,
       std::shared_ptr<CheckedGroup> = nullptr);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();

  /// Runs one call of the public API: one at a time, none after a failure, failures remembered.
  template <class Body>
  decltype(auto) call(std::string_view op, Body body) {
    const std::unique_lock lock(busy, std::try_to_lock);
    enter(op, lock.owns_lock());
    try {
      group->throw_if_aborted(op);
      return body();
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::usage) fail(e);
      throw;
    } catch (const std::exception& e) {  // no memory, no thread: no peer shall wait for this rank
      const Error error = of_system(op, e);
      fail(error);
      throw error;
    }
  }
  /// The same for what concerns no peer: a failure is nobody else's, and is not remembered.
  template <class Body>
  void call_alone(std::string_view op, Body body) {
    const std::unique_lock lock(busy, std::try_to_lock);
    enter(op, lock.owns_lock());
    try {
      body();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& e) {
      throw of_system(op, e);
    }
  }

  void prepare(std::span<const Preparation>, Before);

  /// Where calls are compared (env::compare_calls): that all ranks make the same, whose choices are
  /// the same byte by byte. Collective. Errors: usage, on every rank; peer, timeout.
  void compare(const Problem&, const Plan&, bool collective);
  /// Takes the place of a call that this rank cannot make.
  void refuse(std::string_view op, std::string_view reason, void* stream);

  /// The plan of this problem; made once for each.
  const Plan& plan_of(const Problem&, const PlanOptions&);

  /// Reads the tables that calls take, once the backend says what the machine is; collective, where
  /// they are read `together`. What a rank of the same process has read may be taken instead.
  void read_tuning(bool together, const Impl* has_read = nullptr);
  /// A row that was tuned, on all ranks: plans come from it from now on.
  void keep(const TunedProblem&);
  /// Whether a call of this problem is to be tuned: the first one, as far as this rank knows, of
  /// those that are not captured. A hash for all later ones.
  bool is_first(const Problem&, void* stream);
  /// Tunes it, before its call; with a refusal this rank only tells why there is none. Collective.
  /// Errors: usage (on every rank: calls that differ, a refusal), system, peer, timeout.
  void tune_first(const Problem&, std::string_view refusal, void* stream);

  static Communicator wrap(std::unique_ptr<Impl>);
  /// Of a rank that met its peers: they read their tables together.
  static Communicator joined(std::unique_ptr<Impl>);

  std::unique_ptr<comm::Group> group;
  CommunicatorOptions options;
  std::unique_ptr<Backend> backend;  // after group: it goes first
  op::KeptTuning tuning;
  const bool compares = env::compare_calls();

 private:
  /// The one exception of the library, of another.
  [[nodiscard]] Error of_system(std::string_view op, const std::exception&) const;
  void enter(std::string_view op, bool alone);
  /// Remembers; of a failure of this rank's own it tells the peers, who would wait for it to their
  /// own bound.
  void fail(const Error&);

  struct Asked {
    Problem problem;
    PlanOptions options;
    bool operator==(const Asked&) const = default;
  };
  struct AskedHash {
    std::size_t operator()(const Asked& a) const {
      return hash_value(a.problem) ^ (hash_value(a.options) << 1U);
    }
  };
  pid_t process;  ///< that made it
  std::mutex busy;
  std::optional<Error> failure;
  Recent<Asked, Plan, AskedHash> plans{4096};
  struct ProblemHash {
    std::size_t operator()(const Problem& p) const { return hash_value(p); }
  };
  std::unordered_set<Problem, ProblemHash> settled;  ///< problems that are tuned no more
};

}  // namespace tilelace
