// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

namespace tilelace::cuda {

/// Place of a tensor that peers can reach, at the same offset of a symmetric memory on all ranks.
struct ReachableTensor {
  std::byte* base = nullptr;       ///< rank 0's memory; null: peers cannot reach the tensor
  std::size_t stride = 0;          ///< bytes from one rank's memory to the next
  std::size_t offset = 0;          ///< offset of the tensor in a rank's memory
  std::uint32_t memory = 0;        ///< number of the symmetric memory, equal on all ranks
  std::byte* multicast = nullptr;  ///< multicast address of all ranks' memory; null: not mapped

  [[nodiscard]] std::byte* at(int rank) const {
    return base + static_cast<std::size_t>(rank) * stride + offset;
  }
  /// A word that all ranks must agree on; 0: peers cannot reach the tensor.
  [[nodiscard]] std::uint64_t where() const {
    return base == nullptr ? 0 : (std::uint64_t{memory} << 40U) + offset + 1;
  }
};

}  // namespace tilelace::cuda
