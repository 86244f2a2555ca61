// SPDX-License-Identifier: Apache-2.0
// Fused gemm_ar on GPUs: which product, and in which order.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "plan/gemm.h"
#include "schedule/share_order.h"
#include "tilelace/plan.h"

namespace tilelace::plan {

/// Partial sums go to owners, finished tiles from owners to all.
struct GemmArPlan {
  GemmPlan gemm;
  std::int64_t block_rows = 1;  ///< of a shard, walked before the next ones
  int lag = 1;                  ///< columns of tiles by which own tiles come behind remote ones
  bool direct = false;          ///< finished tiles go straight to where peers want them
  double predicted_us = 0;
  bool wide = false;  ///< partial sums travel in fp32, else in the operands' type
};

/// As printed: "blocks of 512 rows, own tiles 16 columns behind; p160 workers 66 ...".
std::string describe(const GemmArPlan&);
std::ostream& operator<<(std::ostream&, const GemmArPlan&);

/// All legal plans for a problem of Op::gemm_ar whose partial sums are of the operands' type or,
/// `wide`, of fp32, fastest prediction first, each direct and staged; empty where no tile fits the
/// ranks. Errors: usage (not a gemm_ar, n or k not a multiple of 8, no rows).
std::vector<GemmArPlan> gemm_ar_candidates(const Problem&, const GemmMachine& = {},
                                           bool wide = false);

schedule::ShareOrder gemm_ar_order(const Problem&, const GemmArPlan&, int rank);

/// Bytes of one slot on each rank, whatever the plan: partials of this type, and results where they
/// are staged.
std::int64_t gemm_ar_staging_bytes(const Problem&, DType partials);

}  // namespace tilelace::plan
