// SPDX-License-Identifier: Apache-2.0
// Everything a C++ user includes.
#pragma once
#include "tilelace/all_reduce_norm.h"  // IWYU pragma: export
#include "tilelace/collectives.h"      // IWYU pragma: export
#include "tilelace/communicator.h"     // IWYU pragma: export
#include "tilelace/dtype.h"            // IWYU pragma: export
#include "tilelace/error.h"            // IWYU pragma: export
#include "tilelace/half.h"             // IWYU pragma: export
#include "tilelace/moe.h"              // IWYU pragma: export
#include "tilelace/op_table.h"         // IWYU pragma: export
#include "tilelace/ops.h"              // IWYU pragma: export
#include "tilelace/plan.h"             // IWYU pragma: export
#include "tilelace/tensor.h"           // IWYU pragma: export
#include "tilelace/transport_table.h"  // IWYU pragma: export
#include "tilelace/tune.h"             // IWYU pragma: export
#include "tilelace/version.h"          // IWYU pragma: export
