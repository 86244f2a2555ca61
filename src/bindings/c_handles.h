// SPDX-License-Identifier: Apache-2.0
// What the files of the C API share: handles, and the conversion of exceptions to statuses.
#pragma once
#include <exception>
#include <memory>
#include <span>
#include <string>

#include "core/check.h"
#include "tilelace/c.h"
#include "tilelace/tilelace.h"

struct tilelace_communicator {
  tilelace::Communicator member;
};

struct tilelace_buffer {
  tilelace::SymmetricBuffer memory;
};

struct tilelace_device_buffer {
  tilelace::DeviceBuffer memory;
};

namespace tilelace::c_api {

/// The text of this thread's last error.
inline std::string& last_error() {
  static thread_local std::string text = "no error";
  return text;
}

/// Runs the body; an exception becomes a status and this thread's last error.
template <class Body>
tilelace_status guarded(Body body) {
  try {
    body();
    return TILELACE_OK;
  } catch (const Error& e) {
    last_error() = e.what();
    return static_cast<tilelace_status>(e.kind());
  } catch (const std::exception& e) {
    last_error() = e.what();
    return TILELACE_SYSTEM;
  }
}

inline void need(const void* pointer, const char* call, const char* what) {
  require(pointer != nullptr, "{}: {}: got NULL, expected a pointer", call, what);
}

inline std::span<const std::int64_t> list_of(const char* name, const char* what,
                                             const int64_t* list, size_t count) {
  require(count == 0 || list != nullptr, "{}: {}: got NULL, expected {} numbers", name, what,
          count);
  return {list, count};
}

/// Reads arguments by `read`. If that throws, the peers are told before this rank gets the error.
template <class Read>
void read_or_refuse(tilelace_communicator* c, void* const& stream, const Read& read) {
  try {
    read();
  } catch (const std::exception& e) {
    refuse_collective(c->member, e.what(), stream);
    throw;
  }
}

}  // namespace tilelace::c_api
