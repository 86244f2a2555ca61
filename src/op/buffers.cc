// SPDX-License-Identifier: Apache-2.0
// Memory for callers.
#include "core/check.h"
#include "op/impl.h"
#include "tilelace/communicator.h"

namespace tilelace {

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

void* SymmetricBuffer::local() const { return peer(impl_->rank); }
void* SymmetricBuffer::peer(int rank) const {
  require(rank >= 0 && rank < impl_->ranks, "symmetric buffer: rank: got {}, expected 0 to {}",
          rank, impl_->ranks - 1);
  return impl_->memory.base + static_cast<std::size_t>(rank) * impl_->memory.stride;
}
std::size_t SymmetricBuffer::bytes() const { return impl_->memory.bytes; }

struct DeviceBuffer::Impl {
  std::unique_ptr<RankMemory> memory;
  std::size_t bytes = 0;

  [[nodiscard]] std::byte* at(std::size_t offset, std::size_t count) const {
    require(offset <= bytes && count <= bytes - offset,
            "device buffer: bytes {} to {}: got a buffer of {}, expected them inside", offset,
            offset + count, bytes);
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

void* DeviceBuffer::data() const { return impl_->memory->data(); }
std::size_t DeviceBuffer::bytes() const { return impl_->bytes; }

void DeviceBuffer::upload(const void* from, std::size_t bytes, std::size_t offset) {
  impl_->memory->copy(impl_->at(offset, bytes), from, bytes);
}

void DeviceBuffer::download(void* to, std::size_t bytes, std::size_t offset) const {
  impl_->memory->copy(to, impl_->at(offset, bytes), bytes);
}

}  // namespace tilelace
