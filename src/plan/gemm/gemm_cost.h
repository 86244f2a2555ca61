// SPDX-License-Identifier: Apache-2.0
// How long a GEMM plan takes: what counts, whatever the architecture, and the cost of the first
// one, a model with few terms, each of them physical, fitted to measured plans.
#pragma once
#include <cstdint>

#include "plan/gemm/gemm_plan.h"

namespace tilelace::plan {

/// What a plan costs, counted.
struct GemmCost {
  double steps = 0;          ///< k-steps of the busiest worker
  double waves = 0;          ///< whole tiles of the busiest worker
  double tile_steps = 0;     ///< k-steps of all CTAs
  double step_flops = 0;     ///< of one CTA
  double step_bytes = 0;     ///< that one CTA asks of L2
  double tile_elements = 0;  ///< of one CTA
  double flops = 0;          ///< of the problem
  double memory_bytes = 0;   ///< of the problem, each matrix once
  bool pingpong = false;     ///< hides the end of a tile under the next
  int givers = 0;            ///< partials that the head of a shared tile adds; 0: none are shared
  double padding = 0;        ///< share of the token rows that lie beyond the matrix
  bool neighbours = false;   ///< operands are shared within a GPC
  bool early = false;        ///< begins under the end of the kernel before it
  int tiles = 0;             ///< of all workers
  int k_steps = 0;           ///< of a tile
};

/// Predicted time under sustained load, where power, not the clock, is the limit. m chooses among
/// four sets of coefficients: up to 32, up to 64, up to 512, more. Some tiles have corrections.
double gemm_time_us(const GemmCost& cost, const GemmPlan&, std::int64_t m, int multiprocessors);

/// Us that a fused call takes longer where its kernel does not begin under the end of the one
/// before, besides what the product alone does. Two and four H200s, walks by neighbours against the
/// same tiles with an early beginning: m 512 4 to 7, 1024 3 to 5, from 2048 on 2 to 5. Not of
/// ag_gemm and gemm_ar between two, whose longer products gain as much by such walks.
constexpr double kLateStartUs = 3;

/// What a copy engine sends one way when nothing else runs. Measured on H200s over NVLink
/// (docs/decisions/0006).
constexpr double kLinkBytesPerUs = 370e3;

/// What a product's warps send, or pull, beside it. Measured on H200s over NVLink
/// (docs/decisions/0006).
constexpr double kSendBytesPerUs = 330e3;

/// The same where all products end together, and links carry nothing else; and what a tile that one
/// group has to itself ends later. Four H200s, gemm_ar of m 128 to 1024.
constexpr double kAloneBytesPerUs = 450e3, kSlowEndUs = 1.5;

/// Us a byte of memory that is read once more beside products. Measured on H200s.
constexpr double kRereadUsPerByte = 6e-8;

}  // namespace tilelace::plan
