// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/pieces.h"

#include <iterator>
#include <limits>

namespace tilelace::torch_binding {

Pieces::Pieces(std::size_t bytes) {
  const std::size_t whole = bytes / kGrain * kGrain;
  if (whole > 0) pieces_[0].bytes = whole;
}

Pieces::Iterator Pieces::gap_for(std::size_t bytes, const void* stream) {
  Iterator best = pieces_.end();
  std::size_t best_bytes = std::numeric_limits<std::size_t>::max();
  for (Iterator p = pieces_.begin(); p != pieces_.end();) {
    const Iterator first = p;
    std::size_t gap = 0;
    while (p != pieces_.end() && !p->second.taken &&
           (p->second.fresh || p->second.stream == stream)) {
      gap += p->second.bytes;
      ++p;
    }
    if (gap >= bytes && gap < best_bytes) {
      best = first;
      best_bytes = gap;
    }
    if (p != pieces_.end() && p == first) ++p;  // no gap begins here
  }
  return best;
}

std::optional<std::size_t> Pieces::take(std::size_t bytes, const void* stream) {
  if (bytes == 0 || bytes > std::numeric_limits<std::size_t>::max() - kGrain) return std::nullopt;
  const std::size_t wanted = (bytes + kGrain - 1) / kGrain * kGrain;
  const Iterator first = gap_for(wanted, stream);
  if (first == pieces_.end()) return std::nullopt;
  const std::size_t end = first->first + wanted;
  Iterator last = first;  // the part that the piece ends in
  while (last->first + last->second.bytes < end) ++last;
  const std::size_t over = last->first + last->second.bytes - end;
  if (over > 0) {
    Piece rest = last->second;
    rest.bytes = over;
    pieces_.emplace(end, rest);  // the one thing that may throw, so it comes first
  }
  pieces_.erase(std::next(first), std::next(last));
  first->second = {wanted, true, false, stream};
  taken_bytes_ += wanted;
  return first->first;
}

bool Pieces::give_back(std::size_t at) noexcept {
  const Iterator piece = pieces_.find(at);
  if (piece == pieces_.end() || !piece->second.taken) return false;
  taken_bytes_ -= piece->second.bytes;
  piece->second.taken = false;
  return true;
}

}  // namespace tilelace::torch_binding
