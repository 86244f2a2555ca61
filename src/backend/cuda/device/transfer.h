// SPDX-License-Identifier: Apache-2.0
// The transfer verbs of device code. A transfer and its publication are two steps:
//
//   BulkRing::run   -> bulk_complete() -> signal     the same thread throughout; signal also by
//                                                    lanes of its warp, after a __syncwarp
//   copy_by_threads -> publish                       the same threads throughout
//   add_by_threads  -> publish
//
// and no other order: a flag raised before bulk_complete, or by one thread without the barrier of
// publish, overtakes the data.
#pragma once
#include "backend/cuda/device/publish.h"
#include "backend/cuda/device/transfer_bulk.h"
#include "backend/cuda/device/transfer_threads.h"
