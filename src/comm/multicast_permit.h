// SPDX-License-Identifier: Apache-2.0
// Permission to make multicast memory. On some machines a program that makes such memory can make
// the GPUs unusable for all others on the host. So both the program (by an option) and the user (by
// the environment) must agree. cuMulticastCreate (comm/cuda/multicast.cc) can only be reached with
// a permit.
#pragma once
#include <string_view>

namespace tilelace::comm {

class MulticastPermit {
 public:
  /// Whether TILELACE_MULTICAST is "1" in the environment.
  [[nodiscard]] static bool environment_allows();

  /// `option`: whether the program asks for multicast. Not collective. Error: usage, unless the
  /// program asks and the environment allows it; `op` begins the text.
  static MulticastPermit ask(bool option, std::string_view op);

 private:
  MulticastPermit() = default;
};

}  // namespace tilelace::comm
