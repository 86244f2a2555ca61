// SPDX-License-Identifier: Apache-2.0
// A CPU rank's link to a peer: its verbs move rows, raise flags and send headers. Callers give a
// peer's rows as addresses in the range of all ranks' slots, even if that memory is not mapped.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "comm/link_table.h"
#include "comm/signal.h"
#include "tilelace/communicator.h"

namespace tilelace::cpu {

/// Rows of `width` bytes each. Strides are in bytes.
struct RowsCopy {
  std::byte* to = nullptr;
  std::int64_t to_stride = 0;
  const std::byte* from = nullptr;
  std::int64_t from_stride = 0;
  std::int64_t rows = 0;
  std::int64_t width = 0;

  [[nodiscard]] std::int64_t bytes() const { return rows * width; }
};

/// Copies within this rank.
void copy_rows(const RowsCopy&);

/// When a verb gives up: once the abort word is set, or at the deadline.
struct Bound {
  const comm::AbortWord* abort = nullptr;
  std::int64_t deadline_ns = 0;
};

class Link {
 public:
  explicit Link(const comm::LinkRow& row) : row_(row) {}
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link() = default;

  [[nodiscard]] const comm::LinkRow& row() const { return row_; }
  /// Moves rows to or from the peer; returns when they have arrived.
  [[nodiscard]] virtual comm::WaitStatus copy(const RowsCopy&, const Bound&) = 0;
  /// Runs `store`, which writes `bytes` bytes to the peer's memory. On an emulated wire
  /// the call returns when the wire would have finished. Only on links that map memory.
  [[nodiscard]] virtual comm::WaitStatus store(std::int64_t bytes,
                                               const std::function<void()>& store,
                                               const Bound&) = 0;
  /// Raises a flag, which publishes everything that was sent to the peer earlier.
  virtual void raise(comm::Flag* flag, std::uint32_t epoch) = 0;
  virtual void send_header(comm::Header* word, std::uint32_t epoch, std::uint32_t hash) = 0;

 private:
  const comm::LinkRow& row_;
};

/// Makes the links to all ranks, by rank; null for this rank. Error: usage (options).
std::vector<std::unique_ptr<Link>> join_links(int rank, int ranks, const CommunicatorOptions&);

}  // namespace tilelace::cpu
