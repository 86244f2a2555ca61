// SPDX-License-Identifier: Apache-2.0
// What ranks put into collectives, and what must come out, on the host.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/work.h"

namespace tilelace::cli {

/// Values between -1 and 1, other ones on each rank. They repeat after a prime number of elements,
/// so that tables of them are small and no displaced chunk looks right.
class CollectiveValues {
 public:
  CollectiveValues(DType, int ranks);

  [[nodiscard]] std::vector<std::byte> input(const CollectiveShape&, int rank) const;
  /// Bit for bit; sums begin with the first rank's value, run in fp32 in rank order and are rounded
  /// once. Empty: all is right; else the first element that is not.
  [[nodiscard]] std::string wrong(const CollectiveShape&, int rank,
                                  const std::vector<std::byte>& got) const;
  /// Likewise, but sums may have been rounded after every term, in any order.
  [[nodiscard]] std::string far_off(const CollectiveShape&, int rank,
                                    const std::vector<std::byte>& got) const;

 private:
  /// `count` elements of a table, from the `first` on.
  struct Section {
    const std::vector<std::byte>* table = nullptr;
    std::int64_t first = 0, count = 0;
  };
  [[nodiscard]] std::vector<Section> expected(const CollectiveShape&, int rank) const;
  [[nodiscard]] std::string compare(const CollectiveShape&, int rank,
                                    const std::vector<std::byte>& got, double tolerance) const;
  /// The first element that is wrong, or -1.
  [[nodiscard]] std::int64_t first_wrong(const Section&, const std::byte* got,
                                         double tolerance) const;

  DType dtype_;
  int ranks_;
  std::vector<std::vector<std::byte>> own_;
  std::vector<std::byte> sums_;
};

}  // namespace tilelace::cli
