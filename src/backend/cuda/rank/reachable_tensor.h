// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

namespace tilelace::cuda {

/// Where ranks have a tensor: at the same offset of the same symmetric memory on all ranks.
struct ReachableTensor {
  std::byte* base = nullptr;       ///< rank 0's memory; null: not reachable
  std::size_t stride = 0;          ///< bytes from one rank's memory to the next
  std::size_t offset = 0;          ///< offset of the tensor
  std::uint32_t memory = 0;        ///< number of the memory, equal on all ranks
  std::byte* multicast = nullptr;  ///< address of all ranks' memory; null: not mapped

  [[nodiscard]] std::byte* at(int rank) const {
    return base + static_cast<std::size_t>(rank) * stride + offset;
  }
  /// A word that all ranks must agree on; 0: the tensor cannot be reached.
  [[nodiscard]] std::uint64_t where() const {
    return base == nullptr ? 0 : (std::uint64_t{memory} << 40U) + offset + 1;
  }
};

}  // namespace tilelace::cuda
