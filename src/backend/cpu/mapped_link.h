// SPDX-License-Identifier: Apache-2.0
// Links to peers whose memory is mapped: direct links, and links with the timing of an emulated
// wire.
#pragma once
#include "backend/cpu/link.h"
#include "backend/cpu/wire.h"
#include "comm/std_atomics.h"

namespace tilelace::cpu {

class SharedMemoryLink : public Link {
 public:
  using Link::Link;

  comm::WaitStatus copy(const RowsCopy& c, const Bound& bound) override {
    return store(
        c.bytes(), [&] { copy_rows(c); }, bound);
  }
  comm::WaitStatus store(std::int64_t /*bytes*/, const std::function<void()>& store,
                         const Bound& /*bound*/) override {
    store();
    return comm::WaitStatus::reached;
  }
  void raise(comm::Flag* flag, std::uint32_t epoch) override {
    comm::signal<comm::StdAtomics>(flag, epoch);
  }
  void send_header(comm::Header* word, std::uint32_t epoch, std::uint32_t hash) override {
    comm::signal<comm::StdAtomics>(word, epoch, hash);
  }
};

/// A link with the timing of an emulated wire, which all links of a rank share.
class WireLink final : public SharedMemoryLink {
 public:
  WireLink(const comm::LinkRow& row, std::shared_ptr<Wire> wire)
      : SharedMemoryLink(row), wire_(std::move(wire)) {}

  comm::WaitStatus store(std::int64_t bytes, const std::function<void()>& store,
                         const Bound& bound) override {
    return wire_->transfer(bytes, store, bound.abort, bound.deadline_ns);
  }

 private:
  std::shared_ptr<Wire> wire_;
};

}  // namespace tilelace::cpu
