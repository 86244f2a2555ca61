// SPDX-License-Identifier: Apache-2.0
// The transfer verbs of device code. A transfer and its publication are two steps:
//
//   BulkRing::run   -> bulk_complete() -> signal     one thread; behind a __syncwarp, other lanes
//                                                    of its warp may signal
//   copy_by_threads -> publish                       by the same threads
//   add_by_threads  -> publish                       by the same threads
//
// There is no other order. A flag that is raised before bulk_complete, or by one thread without the
// barrier of publish, overtakes the data.
#pragma once
#include "backend/cuda/device/publish.h"
#include "backend/cuda/device/transfer_bulk.h"
#include "backend/cuda/device/transfer_threads.h"
