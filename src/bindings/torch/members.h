// SPDX-License-Identifier: Apache-2.0
// The communicators of torch's groups, found by the group's name and the tensors' device.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tilelace/tilelace.h"

namespace tilelace::torch_binding {

/// Plan options by op.
using PlanChoices = std::map<Op, PlanOptions>;

/// This process's membership in one group.
class Member {
 public:
  Member(std::string group, Communicator communicator, const CommunicatorOptions& options,
         PlanChoices choices);

  [[nodiscard]] Communicator& communicator() { return communicator_; }
  [[nodiscard]] Device device() const { return device_; }
  /// Index of this rank's GPU; -1: CPU ranks.
  [[nodiscard]] int device_index() const { return device_index_; }
  /// The plan options given for this op when the group was joined; empty: the planner chooses.
  [[nodiscard]] PlanOptions choices_of(Op op) const;
  /// Prepared problems, in the order of their first preparation. Of problems that differ only in m,
  /// the list has only the one with the largest m.
  [[nodiscard]] std::vector<Preparation> prepared() const;

  /// Unless this problem is prepared already, prepares it with m rounded up, so that a growing m
  /// seldom needs this again. What is prepared depends only on the calls made so far, so all ranks
  /// prepare in the same call. Collective unless the problem is prepared already.
  void make_room(const Problem& problem, const PlanOptions& options);
  /// The same for a mixture of experts; `layer.m` is the most tokens that calls may have.
  void make_room(const MoeLayer& layer);
  /// Whether the problem is prepared with room for its rows.
  [[nodiscard]] bool has_room(const Problem& problem, const PlanOptions& options) const;
  /// Notes that the member has made collectives, so that `prepare_again` prepares them too.
  void note_collectives() { collects_ = true; }
  /// Prepares all problems once more, which GPU ranks must do after they disagreed. Collective.
  void prepare_again();
  /// Throws a usage error in a process that was forked from the member's process.
  void require_own_process(std::string_view op) const;
  [[nodiscard]] bool own_process() const;

 private:
  std::string group_;
  Communicator communicator_;
  Device device_;
  int device_index_;
  pid_t process_;
  bool collects_ = false;
  PlanChoices choices_;
  /// Key of prepared_: the problem with m set to 0, and its options.
  struct Call {
    Problem problem;
    PlanOptions options;
    bool operator==(const Call&) const = default;
  };
  struct CallHash {
    std::size_t operator()(const Call& c) const { return hash_value(c.problem); }
  };
  struct Largest {
    std::int64_t m = 0;
    std::size_t number = 0;  ///< position in the order of preparation, from 1
  };
  std::vector<MoeLayer> moe_layers_;  ///< prepared layers; their m is the most tokens of a call
  std::unordered_map<Call, Largest, CallHash> prepared_;
};

/// The device with the name "cpu" or "cuda". Errors: usage (another name).
Device device_named(const std::string& name);

/// Whether the group has a member in this process. `name` may end in "@rank/ranks", as compiled
/// graphs write it.
bool has_member(const std::string& name, Device device);

/// The group's member. Errors: usage (the group has no member in this process).
std::shared_ptr<Member> member_of(std::string_view op, const std::string& name, Device device);

/// As member_of, but first joins the group if it has no member yet (collective). `device_index`:
/// the tensors' GPU, which a new member uses; -1: CPU tensors. Errors: also those of joining.
std::shared_ptr<Member> member_or_joined(std::string_view op, const std::string& name,
                                         Device device, int device_index);
/// A function, set by Python, that joins a group. Returns 0, or the kind of an error whose text is
/// then in `text`, cut at `capacity` bytes. Any thread may call it, with or without Python's GIL.
using Joiner = int (*)(const char* name, const char* device, int device_index, char* text,
                       int capacity);
void set_joiner(Joiner joiner);

/// Adds the group's member. Errors: usage (the group has one already).
void add_member(const std::string& group, const CommunicatorOptions& options,
                Communicator communicator, PlanChoices choices);
/// Removes the member, if there is one. In a forked process this only forgets the parent's member.
void remove_member(const std::string& group, Device device);
/// Removes the member, but keeps its communicator until remove_retired_members, since destroying
/// the communicator now would break a graph's capture.
void retire_member(const std::string& group, Device device);
void remove_retired_members();
void remove_all_members();

/// Kind and text of this thread's last error.
std::pair<ErrorKind, std::string>& last_error();

/// Runs the body and keeps its exception for last_error(), because torch passes on only the text.
/// Kind 0: the exception is not an Error.
template <class Body>
decltype(auto) remembered(const Body& body) {
  try {
    return body();
  } catch (const Error& e) {
    last_error() = {e.kind(), e.what()};
    throw;
  } catch (const std::exception& e) {
    last_error() = {ErrorKind{}, e.what()};
    throw;
  }
}

}  // namespace tilelace::torch_binding
