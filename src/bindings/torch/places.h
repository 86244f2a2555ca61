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

/// What a call on one rank knows of its group.
struct Place {
  std::shared_ptr<Member> member;
  Device device;
  int rank;
  int ranks;
  void* stream;
  bool collects = false;  ///< the call is a collective's

  [[nodiscard]] Communicator& communicator() const { return member->communicator(); }
};

/// `op`: as errors name the call. Errors: usage (a device or a group that is not there).
Place place_of(std::string_view op, const Tensor& x, const std::string& group,
               bool collects = false);

/// Tells the peers, in the place of the call that this rank cannot make.
void refuse_at(const Place& place, const std::string& reason);

/// Runs the part that only this rank can judge; what it finds wrong the peers are told, be it ours
/// or torch's (no memory left for a staged copy).
template <class Body>
auto checked_here(const Place& place, const Body& body) {
  try {
    return body();
  } catch (const std::exception& e) {
    refuse_at(place, e.what());
    throw;
  }
}

/// Tells the peers that this rank cannot make the call that they make, and why. Collective, as the
/// call it stands for.
void refuse_call(const std::string& group, Device device, const std::string& reason, void* stream,
                 bool collects);

/// Of so many, the first ranks get one more.
std::vector<int64_t> remainder_first(int64_t units, int ranks);
/// Errors: usage (not one a rank, negative ones).
void check_sizes(std::string_view op, std::string_view what, const std::vector<int64_t>& sizes,
                 int ranks);

/// Units of every rank, and the rows that the library is told: none where it splits evenly itself.
struct Split {
  std::vector<int64_t> units;
  std::vector<int64_t> rows;
  int64_t total = 0;
};

Split split_of(const OpCall& call, const Rows& x, const Place& place);

}  // namespace tilelace::torch_binding
