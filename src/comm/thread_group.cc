// SPDX-License-Identifier: Apache-2.0
// Ranks as threads of one process.
#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "comm/control.h"
#include "comm/failure.h"
#include "comm/group.h"
#include "comm/members.h"
#include "comm/rendezvous.h"

namespace tilelace::comm {
namespace {

/// What the members of a group share.
struct Hall {
  explicit Hall(int ranks) : meeting(ranks), control(make_anonymous(sizeof(ControlPage), ranks)) {}

  /// Where the members of this list meet to make a subgroup.
  std::shared_ptr<Rendezvous> room(std::span<const int> members) {
    const std::lock_guard lock(mutex);
    auto& found = rooms[std::vector<int>(members.begin(), members.end())];
    if (!found) found = std::make_shared<Rendezvous>(static_cast<int>(members.size()));
    return found;
  }

  Rendezvous meeting;
  std::shared_ptr<SymmetricMemory> control;
  std::mutex mutex;
  std::map<std::vector<int>, std::shared_ptr<Rendezvous>> rooms;
};

std::uint64_t to_number(const std::string& part) {
  std::uint64_t value = 0;
  std::memcpy(&value, part.data(), std::min(part.size(), sizeof value));
  return value;
}

using DescriptorTable = std::vector<std::vector<UniqueFd>>;  ///< by receiver, then by sender

UniqueFd duplicate(int fd) {
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy)
    raise(ErrorKind::system, "exchange_descriptor: descriptor {} cannot be duplicated: {}", fd,
          errno_text(errno));
  return copy;
}

class ThreadGroup final : public Group {
 public:
  ThreadGroup(int rank, int ranks, std::shared_ptr<Hall> hall)
      : Group(rank, ranks, hall->control), hall_(std::move(hall)) {}

  std::vector<std::string> all_gather(std::string_view mine, double timeout_s) override {
    require_payload(mine);
    return meet("all_gather", std::string(mine), {}, timeout_s)->parts;
  }

  std::shared_ptr<SymmetricMemory> allocate(std::size_t bytes, double timeout_s) override {
    const std::uint64_t mine = bytes;
    std::string part(reinterpret_cast<const char*>(&mine), sizeof mine);
    const auto finish = [this](const std::vector<std::string>& parts) {
      std::vector<std::uint64_t> sizes;
      for (const auto& p : parts) sizes.push_back(to_number(p));
      require_same_bytes(sizes);
      return make_anonymous(sizes[0], ranks());
    };
    const auto round = meet("allocate", std::move(part), finish, timeout_s);
    return std::static_pointer_cast<SymmetricMemory>(round->product);
  }

  [[nodiscard]] bool one_process() const override { return true; }

  std::vector<UniqueFd> exchange_descriptor(int mine, double timeout_s) override {
    require(mine >= 0, "exchange_descriptor: got descriptor {}, expected an open one", mine);
    const auto number = static_cast<std::uint64_t>(mine);
    std::string part(reinterpret_cast<const char*>(&number), sizeof number);
    // Whoever finishes duplicates for all: everyone's descriptor is open while all are here.
    const auto finish = [](const std::vector<std::string>& parts) {
      auto table = std::make_shared<DescriptorTable>(parts.size());
      for (auto& row : *table)
        for (const std::string& p : parts) row.push_back(duplicate(static_cast<int>(to_number(p))));
      return table;
    };
    const auto round = meet("exchange_descriptor", std::move(part), finish, timeout_s);
    auto& table = *std::static_pointer_cast<DescriptorTable>(round->product);
    std::vector<UniqueFd> all = std::move(table[static_cast<std::size_t>(rank())]);
    all[static_cast<std::size_t>(rank())].reset();
    return all;
  }

  std::shared_ptr<void> make_together(const Make& make, double timeout_s) override {
    return meet(
               "make_together", {}, [&make](const auto&) { return make(); }, timeout_s)
        ->product;
  }

  std::unique_ptr<Group> subgroup(std::span<const int> members, double timeout_s) override {
    const int place = require_members(members, rank(), ranks());
    const int size = static_cast<int>(members.size());
    const auto room = hall_->room(members);
    const Deadline deadline("subgroup", timeout_s);
    throw_if_aborted("subgroup");
    try {
      const auto round = room->meet(
          place, "subgroup", {}, [size](const auto&) { return std::make_shared<Hall>(size); },
          deadline, [&](const std::vector<int>& missing) { check("subgroup", missing, members); });
      return std::make_unique<ThreadGroup>(place, size,
                                           std::static_pointer_cast<Hall>(round->product));
    } catch (const Failure& f) {  // its rank is a place in the list
      give_up({f.kind(), members[static_cast<std::size_t>(f.about())],
               fmt::format("{} (places in the list {})", f.what(), fmt::join(members, ", "))});
    }
  }

 private:
  std::shared_ptr<const Round> meet(std::string_view op, std::string part,
                                    const Rendezvous::Finish& finish, double timeout_s) {
    const Deadline deadline(op, timeout_s);
    throw_if_aborted(op);
    try {
      return hall_->meeting.meet(rank(), op, std::move(part), finish, deadline,
                                 [&](const std::vector<int>& missing) { check(op, missing, {}); });
    } catch (const Failure& f) {
      give_up(f);
    }
  }

  /// Gives up when the group is aborted, or when one that did not come has left for good.
  /// `members` maps places to ranks; empty: they are the same.
  void check(std::string_view op, const std::vector<int>& missing, std::span<const int> members) {
    throw_if_aborted(op);
    for (const int m : missing) {
      const int peer = members.empty() ? m : members[static_cast<std::size_t>(m)];
      if (has_left(peer))
        throw Failure(ErrorKind::peer, m,
                      fmt::format("{}: peer rank {} has left the group", op, peer));
    }
  }

  std::shared_ptr<Hall> hall_;
};

}  // namespace

std::vector<std::unique_ptr<Group>> make_thread_groups(int ranks) {
  require_ranks(ranks);
  const auto hall = std::make_shared<Hall>(ranks);
  std::vector<std::unique_ptr<Group>> groups;
  for (int r = 0; r < ranks; ++r) groups.push_back(std::make_unique<ThreadGroup>(r, ranks, hall));
  return groups;
}

}  // namespace tilelace::comm
