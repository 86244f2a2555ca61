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

namespace tilelace::torch_binding {

/// What a call on one rank knows of its group.
struct Place {
  std::shared_ptr<Member> member;
  Device device;
  int rank;
  int ranks;
  void* stream;

  [[nodiscard]] Communicator& communicator() const { return member->communicator(); }
};

/// Errors: usage (a device or a group that is not there).
Place place_of(Op op, const Tensor& x, const std::string& group);

/// Runs the part that only this rank can judge; what it finds wrong the peers are told, be it ours
/// or torch's (no memory left for a staged copy).
template <class Body>
auto checked_here(const Place& place, const Body& body) {
  try {
    return body();
  } catch (const std::exception& e) {
    refuse(place.communicator(), e.what(), place.stream);
    throw;
  }
}

/// Tells the peers that this rank cannot make the call that they make, and why. Collective, as the
/// call it stands for.
void refuse_call(const std::string& group, Device device, const std::string& reason, void* stream);

/// Units of every rank, and the rows that the library is told: none where it splits evenly itself.
struct Split {
  std::vector<int64_t> units;
  std::vector<int64_t> rows;
  int64_t total = 0;
};

Split split_of(const OpCall& call, const Rows& x, const Place& place);

}  // namespace tilelace::torch_binding
