// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch/pools.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <utility>

#include "bindings/torch/members.h"
#include "bindings/torch/pieces.h"
#include "bindings/torch/tensors.h"

namespace tilelace::torch_binding {
namespace {

struct Pool {
  Pool(int64_t its_number, int its_device, SymmetricBuffer memory)
      : number(its_number),
        device(its_device),
        buffer(std::move(memory)),
        base(reinterpret_cast<std::uintptr_t>(buffer.local())),
        pieces(buffer.bytes()) {}

  int64_t number;
  int device;
  SymmetricBuffer buffer;
  std::uintptr_t base;
  Pieces pieces;
};

struct Pools {
  std::mutex mutex;
  pid_t process = getpid();
  int64_t last = 0;
  std::array<std::unique_ptr<Pool>, kMostPools> by_place;
};

/// Never destroyed: torch gives memory back until the end of the process.
Pools& pools() {
  static auto* const all = new Pools;
  return *all;
}

void* allocate_at(int place, ssize_t bytes, int device, const void* stream) noexcept {
  try {
    Pools& all = pools();
    const std::lock_guard lock(all.mutex);
    Pool* const pool = all.by_place[static_cast<std::size_t>(place)].get();
    if (pool == nullptr || pool->device != device || bytes <= 0) return nullptr;
    const auto at = pool->pieces.take(static_cast<std::size_t>(bytes), stream);
    if (!at) return nullptr;
    return reinterpret_cast<void*>(pool->base + *at);  // NOLINT(performance-no-int-to-ptr)
  } catch (...) {  // no memory for a piece's entry: what torch hears is that none is left
    return nullptr;
  }
}

void give_back(const void* memory) noexcept {
  try {
    const auto at = reinterpret_cast<std::uintptr_t>(memory);
    Pools& all = pools();
    const std::lock_guard lock(all.mutex);
    for (const auto& pool : all.by_place) {
      if (pool == nullptr || at < pool->base || at - pool->base >= pool->buffer.bytes()) continue;
      pool->pieces.give_back(at - pool->base);
      return;
    }
  } catch (...) {  // a mutex that cannot be locked: the piece stays out
  }
}

}  // namespace

std::vector<int64_t> make_pool(std::string group, std::string device, int64_t bytes) {
  return remembered([&] {
    constexpr auto kGrain = static_cast<int64_t>(Pieces::kGrain);
    if (bytes <= 0 || bytes > (int64_t{1} << 50U)) {
      wrong("mem_pool", "size", std::to_string(bytes) + " bytes", "1 to 2^50");
    }
    const auto member = member_of("mem_pool", group, device_named(device));
    Pools& all = pools();
    const auto empty_place = [&] {
      return std::find(all.by_place.begin(), all.by_place.end(), nullptr);
    };
    {
      const std::lock_guard lock(all.mutex);
      if (empty_place() == all.by_place.end()) {
        wrong("mem_pool", "all " + std::to_string(kMostPools) +
                              " pools are in use: delete one and its tensors, then call "
                              "torch.cuda.empty_cache()");
      }
    }
    const int64_t whole = (bytes + kGrain - 1) / kGrain * kGrain;
    SymmetricBuffer buffer(member->communicator(), static_cast<std::size_t>(whole));
    const std::lock_guard lock(all.mutex);
    const auto place = empty_place();
    if (place == all.by_place.end()) {
      wrong("mem_pool", "another thread took the last free pool: make pools one after the other");
    }
    *place = std::make_unique<Pool>(++all.last, member->device_index(), std::move(buffer));
    return std::vector<int64_t>{all.last, place - all.by_place.begin(), member->device_index()};
  });
}

bool drop_pool(int64_t number) {
  Pools& all = pools();
  if (all.process != getpid()) return true;
  std::unique_ptr<Pool> last;  // let go of after the lock: the driver takes its time
  const std::lock_guard lock(all.mutex);
  const auto place = std::find_if(all.by_place.begin(), all.by_place.end(), [&](const auto& pool) {
    return pool != nullptr && pool->number == number;
  });
  if (place == all.by_place.end()) return true;
  if ((*place)->pieces.taken_bytes() > 0) return false;
  last = std::move(*place);
  return true;
}

}  // namespace tilelace::torch_binding

// The names and signatures that torch.cuda.memory.CUDAPluggableAllocator looks up.
// NOLINTBEGIN(cppcoreguidelines-macro-usage,bugprone-macro-parentheses)
#define TILELACE_EXPORTED __attribute__((visibility("default")))
#define TILELACE_POOL(PLACE)                                                          \
  TILELACE_EXPORTED void* tilelace_pool_##PLACE##_allocate(ssize_t bytes, int device, \
                                                           void* stream) {            \
    return tilelace::torch_binding::allocate_at(PLACE, bytes, device, stream);        \
  }
// NOLINTEND(cppcoreguidelines-macro-usage,bugprone-macro-parentheses)
extern "C" {
TILELACE_EXPORTED void tilelace_pool_free(void* memory, ssize_t, int, void*) {
  tilelace::torch_binding::give_back(memory);
}
TILELACE_POOL(0)
TILELACE_POOL(1)
TILELACE_POOL(2)
TILELACE_POOL(3)
TILELACE_POOL(4)
TILELACE_POOL(5)
TILELACE_POOL(6)
TILELACE_POOL(7)
TILELACE_POOL(8)
TILELACE_POOL(9)
TILELACE_POOL(10)
TILELACE_POOL(11)
TILELACE_POOL(12)
TILELACE_POOL(13)
TILELACE_POOL(14)
TILELACE_POOL(15)
TILELACE_POOL(16)
TILELACE_POOL(17)
TILELACE_POOL(18)
TILELACE_POOL(19)
TILELACE_POOL(20)
TILELACE_POOL(21)
TILELACE_POOL(22)
TILELACE_POOL(23)
TILELACE_POOL(24)
TILELACE_POOL(25)
TILELACE_POOL(26)
TILELACE_POOL(27)
TILELACE_POOL(28)
TILELACE_POOL(29)
TILELACE_POOL(30)
TILELACE_POOL(31)
}
