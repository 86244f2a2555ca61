// SPDX-License-Identifier: Apache-2.0
// Memory for callers.
#include "core/check.h"
#include "op/impl.h"
#include "tilelace/communicator.h"

namespace tilelace {
namespace {

/// What a buffer stands on: nothing, once it was moved from.
template <class Impl>
Impl& standing(const std::unique_ptr<Impl>& impl, const char* what) {
  require(impl != nullptr, "{}: the object is empty: it was moved from", what);
  return *impl;
}

}  // namespace

struct SymmetricBuffer::Impl {
  ReachableMemory memory;
  int rank = 0;
  int ranks = 0;
};

SymmetricBuffer::SymmetricBuffer(Communicator& communicator, std::size_t bytes) {
  auto& c = communicator.impl();
  c.call("symmetric buffer", [&] {
    impl_ =
        std::make_unique<Impl>(Impl{c.backend->allocate(bytes), c.group->rank(), c.group->ranks()});
  });
}
SymmetricBuffer::SymmetricBuffer(SymmetricBuffer&&) noexcept = default;
SymmetricBuffer& SymmetricBuffer::operator=(SymmetricBuffer&&) noexcept = default;
SymmetricBuffer::~SymmetricBuffer() = default;

void* SymmetricBuffer::local() const { return peer(standing(impl_, "symmetric buffer").rank); }
void* SymmetricBuffer::peer(int rank) const {
  const Impl& i = standing(impl_, "symmetric buffer");
  require(rank >= 0 && rank < i.ranks, "symmetric buffer: rank: got {}, expected 0 to {}", rank,
          i.ranks - 1);
  return i.memory.base + static_cast<std::size_t>(rank) * i.memory.stride;
}
std::size_t SymmetricBuffer::bytes() const {
  return standing(impl_, "symmetric buffer").memory.bytes;
}

struct DeviceBuffer::Impl {
  std::unique_ptr<RankMemory> memory;
  std::size_t bytes = 0;

  /// `host`: where the bytes come from or go to.
  [[nodiscard]] std::byte* at(std::size_t offset, std::size_t count, const void* host) const {
    require(offset <= bytes && count <= bytes - offset,
            "device buffer: {} bytes from byte {} on exceed the buffer's {} bytes", count, offset,
            bytes);
    require(host != nullptr || count == 0,
            "device buffer: host memory: got null, expected {} bytes", count);
    return memory->data() + offset;
  }
};

DeviceBuffer::DeviceBuffer(Communicator& communicator, std::size_t bytes) {
  auto& c = communicator.impl();
  c.call_alone("device buffer", [&] {
    impl_ = std::make_unique<Impl>(Impl{c.backend->make_memory(bytes), bytes});
  });
}
DeviceBuffer::DeviceBuffer(DeviceBuffer&&) noexcept = default;
DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&&) noexcept = default;
DeviceBuffer::~DeviceBuffer() = default;

void* DeviceBuffer::data() const { return standing(impl_, "device buffer").memory->data(); }
std::size_t DeviceBuffer::bytes() const { return standing(impl_, "device buffer").bytes; }

void DeviceBuffer::upload(const void* from, std::size_t bytes, std::size_t offset) {
  const Impl& i = standing(impl_, "device buffer");
  i.memory->copy(i.at(offset, bytes, from), from, bytes);
}

void DeviceBuffer::download(void* to, std::size_t bytes, std::size_t offset) const {
  const Impl& i = standing(impl_, "device buffer");
  i.memory->copy(to, i.at(offset, bytes, to), bytes);
}

}  // namespace tilelace
