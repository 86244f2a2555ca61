// SPDX-License-Identifier: Apache-2.0
// Path unfused of ag_gemm with transport store: an exchange without a GEMM (schedule/exchange.h)
// brings the rows of all ranks into the slot, then a plain GEMM multiplies all of them.
#pragma once
#include <cstdint>
#include <optional>

#include "plan/base/hardware.h"
#include "plan/collectives/collective.h"
#include "plan/ways/ag_gemm_way.h"

namespace tilelace::plan {

/// Whether an exchange of its own brings the rows.
bool is_exchanged(const AgGemmWay&);

/// The exchange's call: `in` is this rank's rows, `out` the rows of all ranks.
CollectiveCall gathered_rows(const Problem&, int rank);
/// The machine of a GEMM, as an exchange sees it.
CollectiveMachine collective_machine(const GemmMachine&);
/// Whether the rows may travel as lines, also on a share of this machine.
bool may_be_lines(const Problem&, const CollectiveMachine&);
/// The exchange's plan; by lines or by chunks, or by what is predicted to be faster.
CollectivePlan gathering_plan(std::optional<bool> lines, const CollectiveCall&,
                              const CollectiveMachine&);
/// Predicted time of the exchange if nothing else runs.
double gathering_us(const Problem&, bool lines, const GemmMachine&);

/// Bytes, beside a slot on each rank, of words that carry their call's number, for calls of up to
/// the problem's m rows.
std::int64_t gathering_line_bytes(const Problem&);

}  // namespace tilelace::plan
