// SPDX-License-Identifier: Apache-2.0
// What one rank can see of a call before anything is sent.
#pragma once
#include <cstdint>
#include <string_view>

#include "backend/backend.h"
#include "core/tensor_name.h"
#include "tilelace/communicator.h"
#include "tilelace/ops.h"

namespace tilelace::op {

/// Throws unless the view is a rows x cols matrix of this type that meets the alignment rule. A
/// view without elements may be null.
void check_tensor(std::string_view op, TensorName, const TensorView&, DType, std::int64_t rows,
                  std::int64_t cols);

/// A tensor and what texts call it.
struct Named {
  TensorName name;
  TensorView view;
};

/// Throws unless two checked views, either of which may be empty, share no byte.
void check_apart(std::string_view op, const Named& a, const Named& b);

/// Throws unless the problem is well-formed for this many ranks and the weights fit it.
void check_preparation(const Preparation&, int ranks);

/// Rows of this rank's shard.
std::int64_t shard_rows(const Problem&, int rank);

}  // namespace tilelace::op
