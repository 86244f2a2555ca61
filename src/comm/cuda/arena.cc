// SPDX-License-Identifier: Apache-2.0
#include "comm/cuda/arena.h"

#include <algorithm>

#include "core/check.h"

namespace tilelace::comm {
namespace {

constexpr std::size_t round_up(std::size_t bytes) {
  return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
}

}  // namespace

Arena::Arena(std::shared_ptr<DeviceMemory> memory) : memory_(std::move(memory)) {
  // The stride has room for the last piece's alignment.
  const std::size_t whole = std::min(round_up(memory_->bytes()), memory_->stride());
  if (whole > 0) free_[0] = whole;
}

Region Arena::take(std::string_view what, std::size_t bytes) {
  const std::size_t room = largest();
  require(bytes <= room,
          "arena: no room for {} of {} bytes: {} of {} are left, the largest piece has {}", what,
          bytes, left(), memory_->bytes(), room);
  const std::size_t wanted = std::max(round_up(bytes), kAlignment);
  const auto piece = std::find_if(free_.begin(), free_.end(),
                                  [wanted](const auto& p) { return p.second >= wanted; });
  require(piece != free_.end(),
          "arena: no room for {} of {} bytes: {} of {} are left, the largest piece has {}", what,
          bytes, left(), memory_->bytes(), room);
  const auto [offset, size] = *piece;
  free_.erase(piece);
  if (size > wanted) free_[offset + wanted] = size - wanted;
  taken_[offset] = wanted;
  return {offset, bytes};
}

void Arena::give_back(const Region& region) {
  const auto found = taken_.find(region.offset);
  require(found != taken_.end(), "arena: got back a region at {}, expected one that is taken",
          region.offset);
  auto piece = free_.insert(taken_.extract(found)).position;
  const auto next = std::next(piece);
  if (next != free_.end() && piece->first + piece->second == next->first) {
    piece->second += next->second;
    free_.erase(next);
  }
  if (piece == free_.begin()) return;
  const auto before = std::prev(piece);
  if (before->first + before->second != piece->first) return;
  before->second += piece->second;
  free_.erase(piece);
}

std::size_t Arena::left() const {
  std::size_t sum = 0;
  for (const auto& [offset, bytes] : free_) sum += bytes;
  return sum;
}

std::size_t Arena::largest() const {
  std::size_t most = 0;
  for (const auto& [offset, bytes] : free_) most = std::max(most, bytes);
  return most;
}

}  // namespace tilelace::comm
