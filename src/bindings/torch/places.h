// SPDX-License-Identifier: Apache-2.0
// Where a call runs, and how its rows are split over the ranks.
#pragma once
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/torch/calls.h"
#include "bindings/torch/members.h"
#include "tilelace/collectives.h"

namespace tilelace::torch_binding {

/// What a call on one rank needs to know of its group.
struct Place {
  std::shared_ptr<Member> member;
  Device device;
  int rank;
  int ranks;
  void* stream;
  bool collects = false;  ///< whether the call is a collective

  [[nodiscard]] Communicator& communicator() const { return member->communicator(); }
};

/// `op`: name of the call in errors. Errors: usage (an unknown device or group).
Place place_of(std::string_view op, const Tensor& x, const std::string& group,
               bool collects = false);

/// Tells the peers that this rank cannot make the call.
void refuse_at(const Place& place, const std::string& reason);

/// Runs `body`, which checks the call on this rank alone. If it throws (an Error, or torch's error
/// if there is no memory for a staged copy), tells the peers and rethrows.
template <class Body>
auto checked_here(const Place& place, const Body& body) {
  try {
    return body();
  } catch (const std::exception& e) {
    refuse_at(place, e.what());
    throw;
  }
}

/// Tells the peers that this rank cannot make the call that they make, and why. Collective: it
/// takes the place of this rank's call.
void refuse_call(const std::string& group, Device device, const std::string& reason, void* stream,
                 bool collects);

/// Splits `units` evenly over the ranks; the first ranks get the remainder, one each.
std::vector<int64_t> remainder_first(int64_t units, int ranks);
/// The current stream of this GPU; null for -1, which means no GPU.
void* stream_on(int device_index);

/// Errors: usage (not one entry per rank, negative entries).
void check_sizes(std::string_view op, std::string_view what, const std::vector<int64_t>& sizes,
                 int ranks);

/// `units`: number of units (indices of the split dimension) of every rank. `rows`: rows per rank
/// to pass to the library; empty if the library's even split is the same.
struct Split {
  std::vector<int64_t> units;
  std::vector<int64_t> rows;
  int64_t total = 0;
};

Split split_of(const OpCall& call, const Rows& x, const Place& place);

}  // namespace tilelace::torch_binding
