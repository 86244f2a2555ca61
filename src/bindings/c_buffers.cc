// SPDX-License-Identifier: Apache-2.0
// The C API's memory.
#include <utility>

#include "bindings/c_handles.h"

using tilelace::c_api::guarded;
using tilelace::c_api::need;

extern "C" {

tilelace_status tilelace_buffer_create(tilelace_communicator* c, size_t bytes,
                                       tilelace_buffer** out) {
  return guarded([&] {
    need(c, "buffer", "communicator");
    // Before what is wrong here alone: peers do not wait.
    tilelace::SymmetricBuffer made(c->member, bytes);
    need(out, "buffer", "out");
    *out = new tilelace_buffer{std::move(made)};
  });
}

void tilelace_buffer_destroy(tilelace_buffer* buffer) { delete buffer; }

tilelace_status tilelace_buffer_peer(const tilelace_buffer* buffer, int32_t rank, void** address) {
  return guarded([&] {
    need(buffer, "buffer", "buffer");
    need(address, "buffer", "address");
    *address = buffer->memory.peer(rank);
  });
}

tilelace_status tilelace_device_buffer_create(tilelace_communicator* c, size_t bytes,
                                              tilelace_device_buffer** out) {
  return guarded([&] {
    need(c, "device buffer", "communicator");
    need(out, "device buffer", "out");
    *out = new tilelace_device_buffer{tilelace::DeviceBuffer(c->member, bytes)};
  });
}

void tilelace_device_buffer_destroy(tilelace_device_buffer* buffer) { delete buffer; }

void* tilelace_device_buffer_data(const tilelace_device_buffer* buffer) {
  return buffer == nullptr ? nullptr : buffer->memory.data();
}

tilelace_status tilelace_device_buffer_upload(tilelace_device_buffer* buffer, const void* from,
                                              size_t bytes, size_t offset) {
  return guarded([&] {
    need(buffer, "device buffer", "buffer");
    if (bytes > 0) need(from, "device buffer", "from");
    buffer->memory.upload(from, bytes, offset);
  });
}

tilelace_status tilelace_device_buffer_download(const tilelace_device_buffer* buffer, void* to,
                                                size_t bytes, size_t offset) {
  return guarded([&] {
    need(buffer, "device buffer", "buffer");
    if (bytes > 0) need(to, "device buffer", "to");
    buffer->memory.download(to, bytes, offset);
  });
}

}  // extern "C"
