// SPDX-License-Identifier: Apache-2.0
// The path of each shard between ranks. A route has, for each root rank, a tree of all ranks. An
// all-gather sends the root's shard down the tree; a reduce-scatter sends partials for that shard
// up the same tree.
#pragma once
#include <cstdint>

#include "core/host_device.h"
#include "tilelace/choices.h"

namespace tilelace::schedule {

struct Route {
  RouteKind kind = RouteKind::mesh;
  int ranks = 1;
  int local = 1;  ///< two_level: ranks per node, a divisor of `ranks`

  bool operator==(const Route&) const = default;

  /// The rank that sends root's shard to `rank`, and gets `rank`'s partials for it. rank != root.
  [[nodiscard]] TILELACE_HD constexpr int parent(int root, int rank) const {
    if (kind == RouteKind::mesh) return root;
    if (kind == RouteKind::ring) return wrap(rank - 1, ranks);
    const bool relay = lane(rank) == lane(root) || node(rank) == node(root);
    return relay ? root : node(rank) * local + lane(root);
  }

  [[nodiscard]] TILELACE_HD constexpr bool is_child(int root, int rank, int candidate) const {
    return candidate != root && candidate != rank && parent(root, candidate) == rank;
  }

  [[nodiscard]] TILELACE_HD constexpr int num_children(int root, int rank) const {
    if (kind == RouteKind::mesh) return rank == root ? ranks - 1 : 0;
    if (kind == RouteKind::ring) return wrap(rank + 1, ranks) == root ? 0 : 1;
    if (rank == root) return (nodes() - 1) + (local - 1);
    return node(rank) != node(root) && lane(rank) == lane(root) ? local - 1 : 0;
  }

  /// The i-th rank to which `rank` sends root's shard, in rotated order with remote nodes first.
  [[nodiscard]] TILELACE_HD constexpr int child(int root, int rank, int i) const {
    if (kind != RouteKind::two_level) return wrap(rank + 1 + i, ranks);
    const int remote = rank == root ? nodes() - 1 : 0;
    if (i < remote) return wrap(node(rank) + 1 + i, nodes()) * local + lane(rank);
    return node(rank) * local + wrap(lane(rank) + 1 + i - remote, local);
  }

  /// The i-th shard that `rank` computes in an all-gather: its own, then shards as they arrive.
  [[nodiscard]] TILELACE_HD constexpr int gather_order(int rank, int i) const {
    if (kind != RouteKind::two_level) return wrap(rank - i, ranks);
    return wrap(node(rank) - i / local, nodes()) * local + wrap(lane(rank) - i % local, local);
  }

  /// The i-th shard that `rank` computes in a reduce-scatter: remote nodes first, its own last. In
  /// this order a rank of a mesh sends to one peer and receives from one peer at a time.
  [[nodiscard]] TILELACE_HD constexpr int reduce_order(int rank, int i) const {
    if (kind != RouteKind::two_level) return wrap(rank + 1 + i, ranks);
    return wrap(node(rank) + 1 + i / local, nodes()) * local +
           wrap(lane(rank) + 1 + i % local, local);
  }

  [[nodiscard]] TILELACE_HD constexpr int nodes() const { return ranks / local; }
  [[nodiscard]] TILELACE_HD constexpr int node(int rank) const { return rank / local; }
  [[nodiscard]] TILELACE_HD constexpr int lane(int rank) const { return rank % local; }

 private:
  /// value mod n for values in [-n, 2n).
  TILELACE_HD static constexpr int wrap(int value, int n) {
    if (value < 0) return value + n;
    return value >= n ? value - n : value;
  }
};

}  // namespace tilelace::schedule
