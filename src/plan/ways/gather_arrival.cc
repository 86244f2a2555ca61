// SPDX-License-Identifier: Apache-2.0
#include "plan/ways/gather_arrival.h"

#include "plan/gemm/gemm_cost.h"
#include "tilelace/transport_table.h"

namespace tilelace::plan {
namespace {

using schedule::Index;

// Measured on H200s over NVLink (docs/decisions/0006).
constexpr double kCopyStartUs = 9;
constexpr double kPushStartUs = 2;
constexpr double kPullBytesPerUs = 334e3;  // benchmarks/nvidia-h200-tp4/links.jsonl
// Round figures, not measured.
constexpr double kStageBytesPerUs = 1000e3;
constexpr double kRelayUs = 5;  ///< a wait between two copies
constexpr double kFlagUs = 2;
constexpr double kNcclBytesPerUs = 80e3;  ///< with few CTAs
constexpr double kNcclStartUs = 15;
constexpr double kNcclStepUs = 10;  ///< a send and receive more

/// A send and receive with one peer after the other.
Arrival nccl_arrival(const Travel& way, Index rows, Index row_bytes, int ranks) {
  const auto parts = static_cast<double>(schedule::ceil_div(rows, way.chunk_rows));
  const auto us = [&](Index r) { return static_cast<double>(r * row_bytes) / kNcclBytesPerUs; };
  return {kNcclStartUs + us(way.chunk_rows),
          kNcclStartUs + (ranks - 1) * (us(rows) + parts * kNcclStepUs)};
}

}  // namespace

Arrival arrival_of(const Travel& way, Index rows, Index row_bytes, int ranks) {
  if (row_of(way.transport).needs_nccl()) return nccl_arrival(way, rows, row_bytes, ranks);
  const bool pull = row_of(way.transport).pulls;
  const auto us = [&](Index r) {
    return static_cast<double>(r * row_bytes) / (pull ? kPullBytesPerUs : kLinkBytesPerUs);
  };
  const auto parts = static_cast<double>(schedule::ceil_div(rows, way.chunk_rows));
  Arrival a{kCopyStartUs + us(way.chunk_rows),
            kCopyStartUs + kFlagUs * parts * ranks + us(rows) * (ranks - 1)};
  double relays = way.route == RouteKind::ring ? parts * (ranks - 2) * kRelayUs : 0;
  if (pull) {
    const double stage = static_cast<double>(rows * row_bytes) / kStageBytesPerUs +
                         kFlagUs * parts * (ranks - 1) + kRelayUs;
    relays = parts * (ranks - 1) * kRelayUs;
    a = {a.first_us + stage, a.last_us + stage};
  }
  return {a.first_us, a.last_us + relays};
}

double pushed_us(Index rows, Index row_bytes, int ranks, double bytes_per_us) {
  return kPushStartUs + static_cast<double>(rows * row_bytes) * (ranks - 1) / bytes_per_us;
}

}  // namespace tilelace::plan
