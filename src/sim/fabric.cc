// SPDX-License-Identifier: Apache-2.0
#include "sim/fabric.h"

#include <fmt/core.h>

#include <algorithm>

namespace tilelace::sim {

Fabric::Fabric(const MachineModel& machine, int ranks, int local)
    : machine_(machine), local_(std::max(1, local)) {
  const Links& links = machine.links;
  const int nodes = (ranks + local_ - 1) / local_;
  for (int r = 0; r < ranks; ++r) {
    add(fmt::format("rank {} out", r), 0, false);
    add(fmt::format("rank {} in", r), 0, false);
  }
  if (links.topology == Topology::tree) {
    const int share = static_cast<int>(links.ranks_per_uplink);
    uplinks_of_node_ = (local_ + share - 1) / share;
    first_uplink_ = static_cast<int>(wires_.size());
    for (int u = 0; u < nodes * uplinks_of_node_; ++u) {
      add(fmt::format("uplink {} out", u), links.uplink_gbps, false);
      add(fmt::format("uplink {} in", u), links.uplink_gbps, false);
    }
    first_socket_ = static_cast<int>(wires_.size());
    for (int n = 0; n < nodes; ++n) {
      add(fmt::format("node {} sockets up", n), links.socket_gbps, false);
      add(fmt::format("node {} sockets down", n), links.socket_gbps, false);
    }
  }
  nics_of_node_ = std::max(1, static_cast<int>(machine.network.nics));
  first_nic_ = static_cast<int>(wires_.size());
  for (int n = 0; n < (nodes > 1 ? nodes * nics_of_node_ : 0); ++n) {
    add(fmt::format("NIC {} out", n), machine.network.nic_gbps, true);
    add(fmt::format("NIC {} in", n), machine.network.nic_gbps, true);
  }
}

int Fabric::add(std::string name, double gbps, bool network) {
  wires_.push_back({std::move(name), gbps, 0, network, {}});
  return static_cast<int>(wires_.size()) - 1;
}

int Fabric::node_of(int wire) const {
  if (wire >= first_nic_) return (wire - first_nic_) / 2 / nics_of_node_;
  const bool tree = machine_.links.topology == Topology::tree;
  if (tree && wire >= first_socket_) return (wire - first_socket_) / 2;
  if (tree && wire >= first_uplink_) return (wire - first_uplink_) / 2 / uplinks_of_node_;
  return wire / 2 / local_;
}

double Fabric::mover_gbps(Mover mover) const {
  switch (mover) {
    case Mover::copy_push: return machine_.links.push_gbps;
    case Mover::copy_mesh: return machine_.links.mesh_gbps;
    case Mover::copy_pull: return machine_.links.pull_gbps;
    case Mover::worker: break;
  }
  return machine_.links.store_gbps;
}

void Fabric::find_path(int from, int to) {
  path_.clear();
  if (remote(from, to)) {
    // A NIC serves neighbouring lanes; the device's own port is not what bounds this.
    const auto nic = [&](int rank) {
      return first_nic_ +
             2 * (rank / local_ * nics_of_node_ + rank % local_ * nics_of_node_ / local_);
    };
    path_ = {nic(from), nic(to) + 1};
    return;
  }
  path_.push_back(egress(from));
  if (machine_.links.topology == Topology::tree) {
    const int share = static_cast<int>(machine_.links.ranks_per_uplink);
    const int a = from % local_ / share, b = to % local_ / share, node = from / local_;
    if (a != b) {
      path_.push_back(first_uplink_ + 2 * (node * uplinks_of_node_ + a));
      if (across_sockets(from, to)) path_.push_back(first_socket_ + 2 * node + (a < b ? 0 : 1));
      path_.push_back(first_uplink_ + 2 * (node * uplinks_of_node_ + b) + 1);
    }
  }
  path_.push_back(ingress(to));
}

bool Fabric::across_sockets(int from, int to) const {
  if (machine_.links.topology != Topology::tree || remote(from, to)) return false;
  const int share = static_cast<int>(machine_.links.ranks_per_uplink), half = uplinks_of_node_ / 2;
  return (from % local_ / share < half) != (to % local_ / share < half);
}

bool Fabric::second_engine(int from, int to) const {
  const Links& links = machine_.links;
  const int share = static_cast<int>(links.ranks_per_uplink);
  return links.topology == Topology::tree && links.copy_engines >= 2 && !remote(from, to) &&
         from % local_ / share != to % local_ / share;
}

double Fabric::hold(Wire& wire, double now_us, double from_us, double us) {
  auto& held = wire.held;
  // Nothing is sent in the past.
  std::size_t past = 0;
  while (past < held.size() && held[past].second <= now_us) ++past;
  held.erase(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(past));
  double begin = from_us;
  std::size_t at = 0;
  while (at < held.size() && held[at].first < begin + us) {
    begin = std::max(begin, held[at].second);
    ++at;
  }
  const bool joins_before = at > 0 && held[at - 1].second == begin;
  const bool joins_after = at < held.size() && held[at].first == begin + us;
  if (joins_before) {
    held[at - 1].second = joins_after ? held[at].second : begin + us;
    if (joins_after) held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
  } else if (joins_after) {
    held[at].first = begin;
  } else {
    held.insert(held.begin() + static_cast<std::ptrdiff_t>(at), {begin, begin + us});
  }
  wire.busy_us += us;
  return begin;
}

Fabric::Passage Fabric::send(int from, int to, double bytes, Mover mover, double now_us,
                             double begin_us) {
  find_path(from, to);
  Passage passage{begin_us, begin_us};
  bool first = true;
  last_.clear();
  for (const int id : path_) {
    Wire& wire = wires_[static_cast<std::size_t>(id)];
    const double us = bytes * 1e-3 / (wire.gbps > 0 ? wire.gbps : mover_gbps(mover));
    const double begin = hold(wire, now_us, passage.begin_us, us);
    last_.push_back({id, begin, begin + us});
    passage.begin_us = begin;
    passage.end_us = first ? begin + us : std::max(passage.end_us, begin + us);
    first = false;
  }
  return passage;
}

}  // namespace tilelace::sim
