// SPDX-License-Identifier: Apache-2.0
// Who may make multicast memory. On some machines a program that makes it can take the GPUs away
// from everybody else on the host, so two have to say yes: the program, by an option, and whoever
// runs it, by the environment. The only way to cuMulticastCreate (comm/cuda/multicast.cc) is
// through a permit.
#pragma once
#include <string_view>

namespace tilelace::comm {

class MulticastPermit {
 public:
  /// Whether TILELACE_MULTICAST is "1" in the environment.
  [[nodiscard]] static bool environment_allows();

  /// `option`: whether the program asks for multicast. Local. Error: usage, unless it does and the
  /// environment allows it; `op` begins its text.
  static MulticastPermit ask(bool option, std::string_view op);

 private:
  MulticastPermit() = default;
};

}  // namespace tilelace::comm
