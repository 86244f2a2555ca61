// SPDX-License-Identifier: Apache-2.0
// all_reduce, the residual and RMSNorm of the sum as one call.
#pragma once
#include <cstdint>

#include "tilelace/collectives.h"

namespace tilelace {

/// What becomes e4m3, and by which scale.
enum class NormQuant : std::uint8_t {
  none,   ///< nothing
  token,  ///< a scale a row
  block,  ///< a scale for 128 columns of a row
  given   ///< one scale, read from memory
};

/// One call. Ranks make the same calls in the same order. Tensors are dense, their rows one after
/// the other, and aligned to 16 bytes, scales to 4.
struct AllReduceNormArgs {
  const void* x = nullptr;         ///< [m, n]: this rank's terms
  const void* residual = nullptr;  ///< [m, n], equal on all ranks; null: none
  const void* weight = nullptr;    ///< [n], likewise equal
  float eps = 1e-6F;               ///< added to the mean square
  void* out = nullptr;     ///< [m, n]: sum + residual, the next residual; null: nobody wants it
  void* normed = nullptr;  ///< [m, n]; null: only what is quantised is wanted
  NormQuant quant = NormQuant::none;  ///< what becomes e4m3
  void* quantised = nullptr;          ///< [m, n] e4m3 bytes
  float* scales = nullptr;            ///< token [m], block [m, n / 128]: written; given [1]: read
  Item item = Item::bf16;             ///< bf16 or fp16: x, residual, weight, out, normed
  std::int64_t m = 0;                 ///< rows
  std::int64_t n = 0;                 ///< a multiple of 8, at most 16384; block: of 128
  void* stream = nullptr;             ///< GPU ranks: a cudaStream_t; null: the default stream
};

/// All ranks' x added up, the residual added, each row normed. `out` or `normed` may be the
/// residual, or x; else what is written lies apart from all others.
/// Bit for bit, on every rank and device, in every form and run (all in fp32, every operation
/// rounded by itself, to nearest even):
///   s = all_reduce(x), of the item's type; h = s + residual, rounded to it
///   squares: of 8 columns from left to right, then of neighbours, of pairs, of pairs of pairs ...
///   r = (squares * (1 / n) + eps) to the power of -1/2, rounded once; v = h * r * weight, from
///   left to right out = h; normed = v, rounded quantised = v * (1 / scale) as e4m3, at most 448;
///   NaN stays scale of token and block: the largest |v| / 448, at least 2^-126
/// Collective, with prepare_collectives, streams, captures, traffic (one shot) and errors as
/// all_reduce (collectives.h). Options: shots 1 alone; a chunk is as many whole rows as it begins.
void all_reduce_norm(Communicator&, const AllReduceNormArgs&, const CollectiveOptions& = {});

/// How such a call would run, in words. Local. Errors: usage.
std::string describe_all_reduce_norm(const Communicator&, const AllReduceNormArgs&,
                                     const CollectiveOptions& = {});

}  // namespace tilelace
