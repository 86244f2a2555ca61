// SPDX-License-Identifier: Apache-2.0
// What the transports are, a row each. Whoever branches on a transport asks its row; the command,
// the words of plans and the checks of options go through all rows.
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

/// Who carries bytes: a copy engine (in sums of GPU ranks a kernel behind the product), the worker
/// that computed them, NCCL, the memory that they go to, or the switch.
enum class Carrier : std::uint8_t { engine, worker, library, memory, switched };

struct TransportRow {
  Transport transport;
  std::string_view name;
  Carrier carrier;
  bool pulls = false;  ///< who wants bytes fetches them; else who has them sends
  bool gpus = false;   ///< for GPU ranks only

  /// Sent by who has them, as a transfer of its own: the only way on which ranks may hand on sums.
  [[nodiscard]] constexpr bool pushes() const { return carrier == Carrier::engine && !pulls; }
  /// Nobody relays, and what is sent is a tile, not a chunk.
  [[nodiscard]] constexpr bool by_workers() const { return carrier == Carrier::worker; }
  [[nodiscard]] constexpr bool needs_nccl() const { return carrier == Carrier::library; }
  [[nodiscard]] constexpr bool needs_multicast() const { return carrier == Carrier::switched; }
  /// The owner's memory adds what comes, in the order in which it comes: not the same bits in every
  /// run.
  [[nodiscard]] constexpr bool by_memory() const { return carrier == Carrier::memory; }
  /// Bytes are added up on their way: for sums only, in an order that is not the ranks'.
  [[nodiscard]] constexpr bool adds() const { return by_memory() || needs_multicast(); }
};

namespace detail {

inline constexpr std::array kTransports{
    TransportRow{.transport = Transport::push, .name = "push", .carrier = Carrier::engine},
    TransportRow{
        .transport = Transport::pull, .name = "pull", .carrier = Carrier::engine, .pulls = true},
    TransportRow{.transport = Transport::store, .name = "store", .carrier = Carrier::worker},
    TransportRow{
        .transport = Transport::nccl, .name = "nccl", .carrier = Carrier::library, .gpus = true},
    TransportRow{
        .transport = Transport::add, .name = "add", .carrier = Carrier::memory, .gpus = true},
    TransportRow{.transport = Transport::multimem,
                 .name = "multimem",
                 .carrier = Carrier::switched,
                 .gpus = true},
};

/// Of what a caller made a Transport of and is none (check_options refuses it), and of none asked.
inline constexpr TransportRow kNoTransport{
    .transport = static_cast<Transport>(255), .name = "?", .carrier = static_cast<Carrier>(255)};

}  // namespace detail

/// Row i is the transport of number i.
constexpr std::span<const TransportRow> transport_table() { return detail::kTransports; }

constexpr const TransportRow& row_of(Transport transport) {
  const auto i = static_cast<std::size_t>(transport);
  return i < detail::kTransports.size() ? detail::kTransports[i] : detail::kNoTransport;
}
/// None asked for: a row that is none of all that.
constexpr const TransportRow& row_of(std::optional<Transport> transport) {
  return transport ? row_of(*transport) : detail::kNoTransport;
}

/// The first transport that is carried so.
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
