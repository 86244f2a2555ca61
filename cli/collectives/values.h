// SPDX-License-Identifier: Apache-2.0
// The values that ranks put into collectives, and a check of the results on the host.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/work.h"

namespace tilelace::cli {

/// Values between -1 and 1, different on each rank. They repeat after a prime number of elements.
/// So tables are small, and yet a chunk at a wrong place has wrong values.
class CollectiveValues {
 public:
  CollectiveValues(DType, int ranks);

  [[nodiscard]] std::vector<std::byte> input(const CollectiveShape&, int rank) const;
  /// Compares `got` bit for bit with the expected result. Its sums run in fp32, in rank order, and
  /// are rounded once. Returns a text about the first wrong element, or an empty text.
  [[nodiscard]] std::string wrong(const CollectiveShape&, int rank,
                                  const std::vector<std::byte>& got) const;
  /// Like wrong(), but sums may add their terms in any order and be rounded after each addition.
  [[nodiscard]] std::string far_off(const CollectiveShape&, int rank,
                                    const std::vector<std::byte>& got) const;

 private:
  /// `count` elements of a table, beginning with element `first`.
  struct Section {
    const std::vector<std::byte>* table = nullptr;
    std::int64_t first = 0, count = 0;
  };
  [[nodiscard]] std::vector<Section> expected(const CollectiveShape&, int rank) const;
  [[nodiscard]] std::string compare(const CollectiveShape&, int rank,
                                    const std::vector<std::byte>& got, double tolerance) const;
  /// The index of the first wrong element, or -1.
  [[nodiscard]] std::int64_t first_wrong(const Section&, const std::byte* got,
                                         double tolerance) const;

  DType dtype_;
  int ranks_;
  std::vector<std::vector<std::byte>> own_;
  std::vector<std::byte> sums_;
};

}  // namespace tilelace::cli
