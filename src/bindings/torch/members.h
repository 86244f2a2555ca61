// SPDX-License-Identifier: Apache-2.0
// The communicators behind torch's groups, by the group's name and the device of the tensors.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tilelace/tilelace.h"

namespace tilelace::torch_binding {

/// This process's membership in one group.
class Member {
 public:
  Member(std::string group, Communicator communicator, const CommunicatorOptions& options);

  [[nodiscard]] Communicator& communicator() { return communicator_; }
  [[nodiscard]] Device device() const { return device_; }
  /// Of its GPU; -1: it has none.
  [[nodiscard]] int device_index() const { return device_index_; }
  /// The newest last; of problems that differ in m alone the largest.
  [[nodiscard]] std::vector<Preparation> prepared() const;

  /// Prepares this problem, with room for calls to grow, unless that was done: what is prepared
  /// follows from the calls, so that ranks in the same call do this together. Collective where the
  /// problem is new.
  void make_room(const Problem& problem);
  /// Whether that was done.
  [[nodiscard]] bool has_room(const Problem& problem) const;
  /// That it has made collectives: what is prepared again then has theirs.
  void note_collectives() { collects_ = true; }
  /// All that was prepared, once more: GPU ranks need it after they disagreed. Collective.
  void prepare_again();
  /// Throws in a process that was forked from the member's.
  void require_own_process(std::string_view op) const;
  [[nodiscard]] bool own_process() const;

 private:
  std::string group_;
  Communicator communicator_;
  Device device_;
  int device_index_;
  pid_t process_;
  bool collects_ = false;
  struct ProblemHash {
    std::size_t operator()(const Problem& p) const { return hash_value(p); }
  };
  struct Largest {
    std::int64_t m = 0;
    std::size_t number = 0;  ///< in the order in which problems came
  };
  std::unordered_map<Problem, Largest, ProblemHash> prepared_;  ///< of problems without their m
};

/// "cpu" or "cuda". Errors: usage.
Device device_named(const std::string& name);

/// `name` may have the "@rank/ranks" of compiled graphs.
bool has_member(const std::string& name, Device device);

/// Errors: usage (the group has no member here).
std::shared_ptr<Member> member_of(std::string_view op, const std::string& name, Device device);

/// As member_of, but a group without a member joins first. Collective then.
/// Errors: also those of joining.
/// `device_index`: of the tensors' GPU, which the group then joins with; -1: CPU tensors.
std::shared_ptr<Member> member_or_joined(std::string_view op, const std::string& name,
                                         Device device, int device_index);
/// Joins a group: 0, or the error's kind and its text, cut at `capacity`. Python's; it may be
/// called from any thread, with or without the interpreter's lock.
using Joiner = int (*)(const char* name, const char* device, int device_index, char* text,
                       int capacity);
void set_joiner(Joiner joiner);

/// Errors: usage (there already).
void add_member(const std::string& group, const CommunicatorOptions& options,
                Communicator communicator);
/// Nothing happens where there is none. A forked process only forgets its parent's.
void remove_member(const std::string& group, Device device);
/// Nobody finds the member any more, but its communicator lives on until remove_retired_members:
/// its end would break a graph's capture.
void retire_member(const std::string& group, Device device);
void remove_retired_members();
void remove_all_members();

/// Kind and text of this thread's last error.
std::pair<ErrorKind, std::string>& last_error();

/// Runs the body and keeps what it throws for last_error(): torch passes on the text alone. Kind 0:
/// it is another's, torch's for one.
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
