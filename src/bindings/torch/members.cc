// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/members.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <mutex>
#include <tuple>

#include "tilelace/collectives.h"

namespace tilelace::torch_binding {
namespace {

using Key = std::pair<std::string, Device>;

struct Registry {
  std::mutex mutex;
  std::map<Key, std::shared_ptr<Member>> members;
  std::vector<std::shared_ptr<Member>> retired;
  Joiner joiner = nullptr;
};

/// Never destroyed: what is left at the end of the process ends with it, in no order. A fork waits
/// for its lock: the child would find it locked for ever.
Registry& registry() {
  static auto* const all = new Registry;
  static const int hooked = pthread_atfork([] { all->mutex.lock(); }, [] { all->mutex.unlock(); },
                                           [] { all->mutex.unlock(); });
  static_cast<void>(hooked);
  return *all;
}

[[noreturn]] void usage(const std::string& text) { throw Error(ErrorKind::usage, text); }

/// Up to the next of four steps an octave: a growing m prepares seldom, and wastes a quarter.
std::int64_t with_room(std::int64_t m) {
  const auto least = static_cast<std::uint64_t>(std::max<std::int64_t>(m, 16));
  const std::uint64_t step = std::bit_floor(least) / 4;
  return static_cast<std::int64_t>((least + step - 1) / step * step);
}

/// m of even shards that hold every uneven one.
std::int64_t largest_m(const Problem& p) {
  return p.rows.empty() ? p.m : p.ranks * *std::max_element(p.rows.begin(), p.rows.end());
}

Problem with_m(Problem p, std::int64_t m) {
  p.m = m;
  p.rows.clear();
  return p;
}

/// Compiled graphs append "@rank/ranks", for torch's caches.
std::string plain(const std::string& name) { return name.substr(0, name.rfind('@')); }

/// Null: there is none.
std::shared_ptr<Member> find_member(const std::string& name, Device device) {
  auto& all = registry();
  const std::scoped_lock lock(all.mutex);
  const auto found = all.members.find({plain(name), device});
  return found == all.members.end() ? nullptr : found->second;
}

std::shared_ptr<Member> checked_member(std::string_view op, const std::string& name, Device device,
                                       std::shared_ptr<Member> member) {
  if (member == nullptr) {
    usage(std::string(op) + ": group \"" + plain(name) + "\" has not joined for " +
          std::string(name_of(device)) + " tensors: call tilelace.join(group) first");
  }
  member->require_own_process(op);
  return member;
}

/// Nothing happens where nobody joins groups. The registry is not locked meanwhile: joining adds a
/// member.
void join_by_joiner(const std::string& name, Device device, int device_index) {
  Joiner join = nullptr;
  {
    const std::scoped_lock lock(registry().mutex);
    join = registry().joiner;
  }
  if (join == nullptr) return;
  std::array<char, 1024> text{};
  const int kind = join(name.c_str(), std::string(name_of(device)).c_str(), device_index,
                        text.data(), static_cast<int>(text.size()) - 1);
  if (kind != 0) throw Error(static_cast<ErrorKind>(kind), text.data());
}

/// A member that a fork copied is left alone: its sockets and flags are the parent's.
void let_go(std::shared_ptr<Member> member) {
  if (!member->own_process()) new std::shared_ptr<Member>(std::move(member));
}

}  // namespace

Device device_named(const std::string& name) {
  if (name == "cuda") return Device::cuda;
  if (name == "cpu") return Device::cpu;
  usage("group: device: got \"" + name + "\", expected cpu or cuda");
}

Member::Member(std::string group, Communicator communicator, const CommunicatorOptions& options,
               PlanChoices choices)
    : group_(std::move(group)),
      communicator_(std::move(communicator)),
      device_(options.device),
      device_index_(options.device_index),
      process_(getpid()),
      choices_(std::move(choices)) {}

bool Member::own_process() const { return getpid() == process_; }

void Member::require_own_process(std::string_view op) const {
  if (own_process()) return;
  usage(std::string(op) + ": group \"" + group_ + "\": process " + std::to_string(getpid()) +
        " was forked from process " + std::to_string(process_) +
        ", which had joined: only the process that joined can call");
}

PlanOptions Member::choices_of(Op op) const {
  const auto found = choices_.find(op);
  return found == choices_.end() ? PlanOptions{} : found->second;
}

bool Member::has_room(const Problem& problem, const PlanOptions& options) const {
  const auto found = prepared_.find({with_m(problem, 0), options});
  return found != prepared_.end() && found->second.m >= largest_m(problem);
}

void Member::make_room(const Problem& problem, const PlanOptions& options) {
  if (has_room(problem, options)) return;
  const std::int64_t m = with_room(largest_m(problem));
  const std::array<Preparation, 1> more{Preparation{with_m(problem, m), {}, options}};
  communicator_.prepare_more(more);
  auto& known = prepared_[{with_m(problem, 0), options}];
  if (known.number == 0) known.number = prepared_.size();
  known.m = m;
}

void Member::make_room(const MoeLayer& layer) {
  const auto sizes = [](const MoeLayer& l) {
    return std::tuple(l.dtype, l.hidden, l.inner, l.top_k);
  };
  auto known = std::find_if(moe_layers_.begin(), moe_layers_.end(),
                            [&](const MoeLayer& l) { return sizes(l) == sizes(layer); });
  if (known != moe_layers_.end() && known->m >= layer.m) return;
  MoeLayer larger = layer;
  larger.m = with_room(layer.m);
  prepare_moe(communicator_, larger);
  if (known == moe_layers_.end()) known = moe_layers_.insert(known, larger);
  known->m = larger.m;
}

std::vector<Preparation> Member::prepared() const {
  std::vector<Preparation> list(prepared_.size());
  for (const auto& [call, largest] : prepared_) {
    list[largest.number - 1] = {with_m(call.problem, largest.m), {}, call.options};
  }
  return list;
}

void Member::prepare_again() {
  if (collects_) {
    // Ranks see only here what they have not been told of yet; all must have, to prepare together.
    try {
      communicator_.synchronize(nullptr);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::usage) throw;
    }
  }
  communicator_.prepare(prepared());
  if (collects_) prepare_collectives(communicator_);
}

bool has_member(const std::string& name, Device device) {
  return find_member(name, device) != nullptr;
}

void set_joiner(Joiner joiner) {
  auto& all = registry();
  const std::scoped_lock lock(all.mutex);
  all.joiner = joiner;
}

std::shared_ptr<Member> member_or_joined(std::string_view op, const std::string& name,
                                         Device device, int device_index) {
  auto member = find_member(name, device);
  if (member == nullptr) {
    join_by_joiner(name, device, device_index);
    member = find_member(name, device);
  }
  return checked_member(op, name, device, std::move(member));
}

std::shared_ptr<Member> member_of(std::string_view op, const std::string& name, Device device) {
  return checked_member(op, name, device, find_member(name, device));
}

void add_member(const std::string& group, const CommunicatorOptions& options,
                Communicator communicator, PlanChoices choices) {
  auto& all = registry();
  const std::scoped_lock lock(all.mutex);
  auto& place = all.members[{group, options.device}];
  if (place != nullptr) usage("join: group \"" + group + "\" has already joined");
  place = std::make_shared<Member>(group, std::move(communicator), options, std::move(choices));
}

void remove_member(const std::string& group, Device device) {
  auto& all = registry();
  std::shared_ptr<Member> last;
  {
    const std::scoped_lock lock(all.mutex);
    const auto found = all.members.find({group, device});
    if (found == all.members.end()) return;
    last = std::move(found->second);
    all.members.erase(found);
  }
  let_go(std::move(last));
}

void retire_member(const std::string& group, Device device) {
  auto& all = registry();
  const std::scoped_lock lock(all.mutex);
  const auto found = all.members.find({group, device});
  if (found == all.members.end()) return;
  all.retired.push_back(std::move(found->second));
  all.members.erase(found);
}

void remove_retired_members() {
  std::vector<std::shared_ptr<Member>> all;
  {
    const std::scoped_lock lock(registry().mutex);
    all.swap(registry().retired);
  }
  for (auto& member : all) let_go(std::move(member));
}

void remove_all_members() {
  std::map<Key, std::shared_ptr<Member>> all;
  {
    const std::scoped_lock lock(registry().mutex);
    all.swap(registry().members);
  }
  for (auto& [key, member] : all) let_go(std::move(member));
  remove_retired_members();
}

std::pair<ErrorKind, std::string>& last_error() {
  static thread_local std::pair<ErrorKind, std::string> last{ErrorKind::usage, ""};
  return last;
}

}  // namespace tilelace::torch_binding
