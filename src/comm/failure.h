// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstring>
#include <string>

#include "tilelace/error.h"

namespace tilelace::comm {

/// An error that ends the group, with the rank to blame. Group::give_up turns it into a plain Error
/// before it reaches callers of comm.
class Failure : public Error {
 public:
  Failure(ErrorKind kind, int about, const std::string& text) : Error(kind, text), about_(about) {}
  [[nodiscard]] int about() const { return about_; }

 private:
  int about_;
};

/// Like strerror, but without a shared buffer.
inline std::string errno_text(int error) {
  const char* name = strerrordesc_np(error);
  return name != nullptr ? name : "error " + std::to_string(error);
}

}  // namespace tilelace::comm
