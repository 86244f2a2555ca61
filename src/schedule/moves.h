// SPDX-License-Identifier: Apache-2.0
// Who moves a transport's bytes (tilelace/transport_table.h), as functions for host and device.
#pragma once
#include "core/host_device.h"
#include "tilelace/transport_table.h"

namespace tilelace::schedule {

TILELACE_HD constexpr bool pushes(Transport t) { return t == Transport::push; }
TILELACE_HD constexpr bool pulls(Transport t) { return t == Transport::pull; }
TILELACE_HD constexpr bool by_workers(Transport t) { return t == Transport::store; }

static_assert(std::all_of(transport_table().begin(), transport_table().end(),
                          [](const TransportRow& row) {
                            const Transport t = row.transport;
                            return pushes(t) == row.pushes() && pulls(t) == row.pulls &&
                                   by_workers(t) == row.by_workers();
                          }));

}  // namespace tilelace::schedule
