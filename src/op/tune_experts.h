// SPDX-License-Identifier: Apache-2.0
// Operands for tuning a product of a layer of experts, with random values and routings, and a check
// of the result. Calls use copies in turn. There are enough copies to exceed L2, up to a limit.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "plan/grouped_product.h"
#include "tilelace/communicator.h"
#include "tilelace/moe.h"
#include "tilelace/tune.h"

namespace tilelace::op {

class TuneValues;

/// A product to tune, of the first half (`first`) or the second half of a layer, for m tokens.
struct AskedTiles {
  MoeLayer layer;
  std::int64_t m = 0;
  bool first = true;
};

/// The fastest tiles of a product.
struct FoundTiles {
  plan::GroupedProduct product;
  plan::GroupedShape shape;
  TunedExperts row;
};

/// Draws a routing in which each of m tokens chooses top_k different experts, all equally likely.
/// Returns GroupedGemmArgs::begins for this rank's experts. The same seed gives the same routing.
std::vector<std::int32_t> uniform_begins(const MoeLayer&, std::int64_t m, std::uint32_t seed);

class ExpertOperands {
 public:
  /// Errors: system (memory), usage.
  ExpertOperands(Communicator&, const AskedTiles&, const TuneValues&);

  /// Arguments of the i-th call of a graph. Valid as long as this object.
  [[nodiscard]] GroupedGemmArgs call(int i, void* stream) const;
  /// Fills the first copy of the result with NaNs.
  void poison();
  /// Checks some rows of the first copy of the result against fp64. Returns what is wrong, or an
  /// empty text. The stream's work must have finished.
  [[nodiscard]] std::string wrong() const;

 private:
  struct Set {
    DeviceBuffer x, out, begins;
    std::size_t weight = 0;  ///< index in weights_
  };
  [[nodiscard]] std::string wrong_row(std::int64_t expert, std::int64_t row) const;

  Communicator& member_;
  AskedTiles asked_;
  plan::GroupedProduct product_;
  const TuneValues& values_;
  float weight_scale_;
  std::vector<DeviceBuffer> weights_;
  std::vector<Set> sets_;
  std::vector<std::int32_t> begins_;  ///< GroupedGemmArgs::begins of the first copy
  DeviceBuffer scales_, sources_;
};

}  // namespace tilelace::op
