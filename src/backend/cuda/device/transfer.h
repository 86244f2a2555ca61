// SPDX-License-Identifier: Apache-2.0
// The transfer verbs of device code. A transfer must be published afterwards, in one of these ways:
//
//   BulkRing::run   -> bulk_complete() -> signal     by one thread; after a __syncwarp, other lanes
//                                                    of its warp may signal instead
//   copy_by_threads -> publish                       by the same threads
//   add_by_threads  -> publish                       by the same threads
//
// No other order is correct. A flag that is raised before bulk_complete, or by one thread without
// the barrier inside publish, may be seen before the data.
#pragma once
#include "backend/cuda/device/publish.h"
#include "backend/cuda/device/transfer_bulk.h"
#include "backend/cuda/device/transfer_threads.h"
