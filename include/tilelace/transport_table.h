// SPDX-License-Identifier: Apache-2.0
// The table of transports, one row each. Code that depends on a transport reads that row. The
// `tilelace` command, printed plans and the checks of options go through all rows.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tilelace/choices.h"

namespace tilelace {

/// Who carries bytes. `engine`: a copy engine (for sums on GPUs, kernels in most plans; see Plan).
/// `worker`: the workers that compute. `library`: NCCL. `switched`: the NVLink switch.
enum class Carrier : std::uint8_t { engine, worker, library, switched };

/// Facts about a transport.
struct TransportRow {
  Transport transport;    ///< the transport that the row is for
  std::string_view name;  ///< the name in the command and in plans
  Carrier carrier;        ///< who moves the bytes
  bool pulls = false;     ///< true: the receiver reads; false: the sender writes
  bool gpus = false;      ///< the transport is for GPU ranks only

  /// Whether the sender sends, but not by its GEMM's workers. Only then can CPU ranks relay sums.
  [[nodiscard]] constexpr bool pushes() const { return carrier == Carrier::engine && !pulls; }
  /// Whether workers send whole tiles; else chunks of rows move. CPU ranks can relay only chunks.
  [[nodiscard]] constexpr bool by_workers() const { return carrier == Carrier::worker; }
  /// Whether libnccl must be installed.
  [[nodiscard]] constexpr bool needs_nccl() const { return carrier == Carrier::library; }
  /// Whether memory has to be mapped for multicast. If so, the transport itself adds: it is only
  /// for sums, and does not add in rank order.
  [[nodiscard]] constexpr bool needs_multicast() const { return carrier == Carrier::switched; }
};

namespace detail {

inline constexpr std::array kTransports{
    TransportRow{.transport = Transport::push, .name = "push", .carrier = Carrier::engine},
    TransportRow{
        .transport = Transport::pull, .name = "pull", .carrier = Carrier::engine, .pulls = true},
    TransportRow{.transport = Transport::store, .name = "store", .carrier = Carrier::worker},
    TransportRow{
        .transport = Transport::nccl, .name = "nccl", .carrier = Carrier::library, .gpus = true},
    TransportRow{.transport = Transport::multimem,
                 .name = "multimem",
                 .carrier = Carrier::switched,
                 .gpus = true},
};

/// The row for nullopt and for numbers that name no transport (check_options refuses them).
inline constexpr TransportRow kNoTransport{
    .transport = static_cast<Transport>(255), .name = "?", .carrier = static_cast<Carrier>(255)};

}  // namespace detail

/// Row i is for the transport whose enum value is i.
constexpr std::span<const TransportRow> transport_table() { return detail::kTransports; }

/// The row of a transport; for a value that names no transport, the row named "?".
constexpr const TransportRow& row_of(Transport transport) {
  const auto i = static_cast<std::size_t>(transport);
  return i < detail::kTransports.size() ? detail::kTransports[i] : detail::kNoTransport;
}
/// The row of a transport; for nullopt, the row named "?".
constexpr const TransportRow& row_of(std::optional<Transport> transport) {
  return transport ? row_of(*transport) : detail::kNoTransport;
}

/// The first transport with this carrier and direction.
constexpr Transport transport_that(Carrier carrier, bool pulls = false) {
  const auto at = std::find_if(
      detail::kTransports.begin(), detail::kTransports.end(),
      [&](const TransportRow& row) { return row.carrier == carrier && row.pulls == pulls; });
  return at == detail::kTransports.end() ? detail::kNoTransport.transport : at->transport;
}

static_assert([] {
  for (std::size_t i = 0; i < detail::kTransports.size(); ++i)
    if (static_cast<std::size_t>(detail::kTransports[i].transport) != i) return false;
  return true;
}());

}  // namespace tilelace
