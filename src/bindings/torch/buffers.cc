// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/buffers.h"

#include <unistd.h>

#include <map>
#include <mutex>
#include <utility>

#include "bindings/torch/members.h"
#include "bindings/torch/tensors.h"

namespace tilelace::torch_binding {
namespace {

struct Buffers {
  std::mutex mutex;
  pid_t process = getpid();
  int64_t last = 0;
  std::map<int64_t, SymmetricBuffer> by_number;
};

/// Never destroyed: at exit there may be no driver left to give memory back to.
Buffers& buffers() {
  static auto* const all = new Buffers;
  return *all;
}

}  // namespace

std::vector<int64_t> make_buffer(std::string group, std::string device, int64_t bytes) {
  return remembered([&] {
    if (bytes <= 0) wrong("empty", "size", std::to_string(bytes) + " bytes", "1 or more");
    const auto member = member_of("empty", group, device_named(device));
    SymmetricBuffer buffer(member->communicator(), static_cast<std::size_t>(bytes));
    const auto address = reinterpret_cast<std::uintptr_t>(buffer.local());
    Buffers& all = buffers();
    const std::lock_guard lock(all.mutex);
    all.by_number.emplace(++all.last, std::move(buffer));
    return std::vector<int64_t>{all.last, static_cast<int64_t>(address)};
  });
}

void drop_buffer(int64_t number) {
  Buffers& all = buffers();
  if (all.process != getpid()) return;
  const std::lock_guard lock(all.mutex);
  all.by_number.erase(number);
}

}  // namespace tilelace::torch_binding
