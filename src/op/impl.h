// SPDX-License-Identifier: Apache-2.0
// The implementation of Communicator.
#pragma once
#include <sys/types.h>

#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "comm/group.h"
#include "core/env.h"
#include "core/recent.h"
#include "op/kept_tuning.h"
#include "op/moe_room.h"
#include "tilelace/communicator.h"
#include "tilelace/error.h"
#include "tilelace/tune.h"

namespace tilelace {

namespace op {
struct FoundTiles;

/// What peers are told of a refused call. Without a reason they would take it for the call.
inline std::string_view told(std::string_view reason) {
  return reason.empty() ? "no reason given" : reason;
}
}  // namespace op

struct Communicator::Impl {
  Impl(std::unique_ptr<comm::Group>, const CommunicatorOptions&,
       std::shared_ptr<CheckedGroup> = nullptr);
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();

  /// Runs one public call. Remembers an error of any kind but usage. Refuses a second call at the
  /// same time, and any call after such an error.
  template <class Body>
  decltype(auto) call(std::string_view op, Body body) {
    const std::unique_lock lock(busy, std::try_to_lock);
    enter(op, lock.owns_lock());
    try {
      group->throw_if_aborted(op);
      return body();
    } catch (const Error& e) {
      if (e.kind() == ErrorKind::usage) throw;
      const Error named = of_call(op, e);
      fail(named);
      throw named;
    } catch (const std::exception& e) {  // out of memory or threads: tell the peers
      const Error error = of_system(op, e);
      fail(error);
      throw error;
    }
  }
  /// Like call(), but for calls without peers. No error is told to peers, and none is remembered.
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

  /// If calls are compared (env::compare_calls), checks that all ranks make the same call with the
  /// same choices, byte by byte. Collective. Errors: usage (on every rank), peer, timeout.
  void compare(const Problem&, const Plan&, bool collective);
  /// Called in place of a call that this rank cannot make. Tells the peers the reason.
  void refuse(std::string_view op, std::string_view reason, void* stream);

  /// The plan for this problem and these options, from a cache.
  const Plan& plan_of(const Problem&, const PlanOptions&);

  /// Reads the tables of measured plans, once the backend knows the machine. Collective if
  /// `together`. `has_read`: null, or another rank's Impl, whose cache of tuned plans is used, too.
  void read_tuning(bool together, const Impl* has_read = nullptr);
  /// Keeps a tuned row in the table, for later plans. Every rank must keep the same row.
  void keep(const TunedProblem&);
  void keep(const op::FoundTiles&);
  /// Whether to tune before this call. True only for a problem's first call outside of a stream
  /// capture. For calls after that, the answer costs one hash lookup.
  bool is_first(const Problem&, void* stream);
  /// Tunes a problem before its call. With a `refusal`, this rank only tells the others why it
  /// cannot make the call. Collective.
  /// Errors: usage (on every rank: different calls, a refusal), system, peer, timeout.
  void tune_first(const Problem&, std::string_view refusal, void* stream);

  static Communicator wrap(std::unique_ptr<Impl>);
  /// Makes the communicator of a rank that has joined its group. Collective, since all ranks read
  /// the tables together.
  static Communicator joined(std::unique_ptr<Impl>);

  std::unique_ptr<comm::Group> group;
  CommunicatorOptions options;
  std::unique_ptr<Backend> backend;  // must be destroyed before the group
  op::KeptTuning tuning;
  op::MoeRoom moe;
  const bool compares = env::compare_calls();

 private:
  /// The error with the call's name in front, where its text names only a part of the call.
  [[nodiscard]] static Error of_call(std::string_view op, const Error&);
  /// An Error with the text of another exception.
  [[nodiscard]] Error of_system(std::string_view op, const std::exception&) const;
  void enter(std::string_view op, bool alone);
  /// Remembers the failure. If it arose on this rank, tells the peers, so that they do not wait.
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
  pid_t process;  ///< the process that made the communicator
  std::mutex busy;
  std::optional<Error> failure;
  Recent<Asked, Plan, AskedHash> plans{4096};
  struct ProblemHash {
    std::size_t operator()(const Problem& p) const { return hash_value(p); }
  };
  std::unordered_set<Problem, ProblemHash> settled;  ///< problems that need no tuning any more
};

}  // namespace tilelace
