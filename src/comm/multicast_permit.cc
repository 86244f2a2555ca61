// SPDX-License-Identifier: Apache-2.0
#include "comm/multicast_permit.h"

#include "core/check.h"
#include "core/env.h"

namespace tilelace::comm {

bool MulticastPermit::environment_allows() { return env::multicast() == "1"; }

MulticastPermit MulticastPermit::ask(bool option, std::string_view op) {
  require(option, "{}: multicast needs a communicator that was made with the option multicast", op);
  const std::string set = env::multicast();
  require(set == "1", "{}: multicast needs TILELACE_MULTICAST=1 in the environment, got {}", op,
          set.empty() ? "none" : set);
  return {};
}

}  // namespace tilelace::comm
