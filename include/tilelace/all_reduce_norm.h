// SPDX-License-Identifier: Apache-2.0
// A sum over the ranks, the addition of a residual and RMSNorm, in one call.
#pragma once
#include <cstdint>

#include "tilelace/collectives.h"

namespace tilelace {

/// Whether the normalised rows are quantised to e4m3, and with which scales.
enum class NormQuant : std::uint8_t {
  none,   ///< no quantisation
  token,  ///< one scale per row
  block,  ///< one scale per 128 columns of a row
  given   ///< one scale, read from memory
};

/// Arguments of one call. Ranks make the same calls in the same order. Tensors are contiguous and
/// aligned to 16 bytes, but `scales` only to 4 bytes.
struct AllReduceNormArgs {
  const void* x = nullptr;         ///< [m, n]: this rank's terms
  const void* residual = nullptr;  ///< [m, n], equal on all ranks; null: none
  const void* weight = nullptr;    ///< [n], equal on all ranks
  float eps = 1e-6F;               ///< added to the mean of the squares; 0 or more
  void* out = nullptr;             ///< [m, n]: sum + residual, not normalised yet; null: unwanted
  void* normed = nullptr;          ///< [m, n]; null: only `quantised` is wanted
  NormQuant quant = NormQuant::none;  ///< none: `quantised` and `scales` are null
  void* quantised = nullptr;          ///< [m, n] e4m3 bytes
  float* scales = nullptr;            ///< written: token [m], block [m, n / 128]; read: given [1]
  Item item = Item::bf16;             ///< bf16 or fp16; type of x, residual, weight, out, normed
  std::int64_t m = 0;                 ///< rows
  std::int64_t n = 0;                 ///< columns; a multiple of 8 (block: of 128), at most 16384
  void* stream = nullptr;             ///< GPU ranks: a cudaStream_t; null: the default stream
};

/// Adds x of all ranks and the residual, then normalises each row (RMSNorm). `out` or `normed` may
/// be equal to `residual` or `x`; otherwise results must not overlap any other tensor.
/// The results are the same bits on every rank, device and run. Arithmetic is in fp32, and each
/// operation is rounded to nearest even by itself:
///   s = all_reduce(x) and h = s + residual, each rounded to the item's type; out = h
///   squares = sum of h * h, left to right in groups of 8 columns; a tree of pairs adds the groups
///   r = rsqrt(squares * (1 / n) + eps), rounded once; v = (h * r) * weight; normed = v, rounded
///   quantised = v * (1 / scale), clamped to [-448, 448], as e4m3; NaN stays NaN
///   scale = max(2^-126, max |v| / 448); token: max over the row; block: max over 128 columns
/// Collective. Streams, captures and prepare_collectives are as in collectives.h. Traffic and
/// errors: as one-shot all_reduce. Options: `shots` must be 1; chunks are rounded up to whole rows.
void all_reduce_norm(Communicator&, const AllReduceNormArgs&, const CollectiveOptions& = {});

/// Says how all_reduce_norm would run with these arguments. Local. Errors: usage.
std::string describe_all_reduce_norm(const Communicator&, const AllReduceNormArgs&,
                                     const CollectiveOptions& = {});

}  // namespace tilelace
