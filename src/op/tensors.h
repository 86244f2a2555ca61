// SPDX-License-Identifier: Apache-2.0
// Checks of a call that one rank can do by itself, before anything is sent.
#pragma once
#include <cstdint>
#include <string_view>

#include "backend/backend.h"
#include "core/tensor_name.h"
#include "tilelace/communicator.h"
#include "tilelace/ops.h"

namespace tilelace::op {

/// Throws unless the view is a rows x cols matrix of this type that is aligned as required. A view
/// without elements may be null.
void check_tensor(std::string_view op, TensorName, const TensorView&, DType, std::int64_t rows,
                  std::int64_t cols);

/// Throws unless the call's tensors match the operands that the op's row in the op table lists, and
/// no output overlaps another operand. The problem must be valid.
void check_operands(const CallArgs&, int rank, Part);

/// Throws unless the problem is valid for this many ranks and the given weights fit the problem.
void check_preparation(const Preparation&, int ranks);

}  // namespace tilelace::op
