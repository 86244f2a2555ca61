// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/places.h"

#include <torch/csrc/stable/accelerator.h>

#include <numeric>

// Only builds of torch with CUDA have it; they load it with the library that every build has.
extern "C" __attribute__((weak)) AOTITorchError aoti_torch_get_current_cuda_stream(int32_t, void**);

namespace tilelace::torch_binding {
namespace {

/// Without a tensor that of the group: it is to tell the peers.
Device device_of(std::string_view op, const Tensor& x, const std::string& group) {
  if (!x.defined()) return has_member(group, Device::cuda) ? Device::cuda : Device::cpu;
  if (x.is_cuda()) return Device::cuda;
  if (x.is_cpu()) return Device::cpu;
  wrong(op, "x", "a tensor on another device", "one on cpu or cuda");
}

}  // namespace

void* stream_on(int device_index) {
  if (device_index < 0 || aoti_torch_get_current_cuda_stream == nullptr) return nullptr;
  void* stream = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(device_index, &stream));
  return stream;
}

namespace {

Split split_of(std::vector<int64_t> units, int64_t inner) {
  Split s;
  s.total = std::accumulate(units.begin(), units.end(), int64_t{0});
  const bool even = units == remainder_first(s.total, static_cast<int>(units.size()));
  const bool whole = s.total % static_cast<int64_t>(units.size()) == 0;
  if (!even || (inner != 1 && !whole)) {
    for (const auto u : units) s.rows.push_back(u * inner);
  }
  s.units = std::move(units);
  return s;
}

}  // namespace

std::vector<int64_t> remainder_first(int64_t units, int ranks) {
  std::vector<int64_t> sizes;
  for (int r = 0; r < ranks; ++r) sizes.push_back((units + ranks - 1 - r) / ranks);
  return sizes;
}

void check_sizes(std::string_view op, std::string_view what, const std::vector<int64_t>& sizes,
                 int ranks) {
  if (static_cast<int>(sizes.size()) != ranks) {
    wrong(op, std::string(what), std::to_string(sizes.size()) + " entries",
          "one per rank (" + std::to_string(ranks) + ")");
  }
  for (const auto s : sizes) {
    if (s < 0) wrong(op, std::string(what), std::to_string(s), "0 or more");
  }
}

Place place_of(std::string_view name, const Tensor& x, const std::string& group, bool collects) {
  const Device device = device_of(name, x, group);
  const int index = device == Device::cuda && x.defined() ? x.get_device_index() : -1;
  auto member = member_or_joined(name, group, device, index);
  const int rank = member->communicator().rank();
  const int ranks = member->communicator().size();
  const int joined = member->device_index();
  Place place{std::move(member), device, rank, ranks, stream_on(joined), collects};
  if (index < 0 || index == joined) return place;
  checked_here(place, [&] {
    wrong(name, "x", "a tensor on cuda:" + std::to_string(index),
          "a tensor on cuda:" + std::to_string(joined) + ", the group's device");
  });
  return place;
}

void refuse_at(const Place& place, const std::string& reason) {
  if (!place.collects) return refuse(place.communicator(), reason, place.stream);
  place.member->note_collectives();
  try {
    refuse_collective(place.communicator(), reason, place.stream);
  } catch (const Error& e) {
    // Of a first one all are told; here the reason itself says more.
    if (e.kind() != ErrorKind::usage) throw;
  }
}

void refuse_call(const std::string& group, Device device, const std::string& reason, void* stream,
                 bool collects) {
  auto member = member_of("call", group, device);
  refuse_at({std::move(member), device, 0, 0, stream, collects}, reason);
}

Split split_of(const OpCall& call, const Rows& x, const Place& place) {
  const OpRow& op = row_of(call.op);
  if (!op.shards()) return {{}, {}, x.units};
  std::vector<int64_t> units(static_cast<std::size_t>(place.ranks), x.units);
  if (call.sizes) {
    check_sizes(op.name, "sizes", *call.sizes, place.ranks);
    units = *call.sizes;
  } else if (call.like || op.scatters()) {
    units = remainder_first(call.like ? call.like->size(x.dim) : x.units, place.ranks);
  }
  const auto own = units[static_cast<std::size_t>(place.rank)];
  auto split = split_of(std::move(units), x.inner);
  const auto dimension = " in dimension " + std::to_string(x.dim);
  if (op.gathers && own != x.units) {
    wrong(op.name, "x", std::to_string(x.units) + dimension,
          std::to_string(own) + ", this rank's entry in sizes");
  }
  if (op.sums && split.total != x.units) {
    wrong(op.name, "sizes", "a sum of " + std::to_string(split.total),
          std::to_string(x.units) + ", the size of x" + dimension);
  }
  return split;
}

}  // namespace tilelace::torch_binding
