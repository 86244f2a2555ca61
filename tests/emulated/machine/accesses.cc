// SPDX-License-Identifier: Apache-2.0
// Loads and stores of kernels: their sources are compiled for ThreadSanitizer, whose runtime this
// is.
#include "machine/machine.h"

namespace {

using tilelace::emulated::Machine;
namespace order = tilelace::emulated::order;

inline void touch(order::Access access, const void* p, std::size_t bytes, const void* where) {
  if (!order::is_on() || !Machine::is_running()) return;
  order::touch(Machine::get().knower(), access, p, bytes, where);
}

}  // namespace

#define TILELACE_ACCESS(bytes)                                          \
  void __tsan_read##bytes(void* p) {                                    \
    touch(order::Access::read, p, bytes, __builtin_return_address(0));  \
  }                                                                     \
  void __tsan_write##bytes(void* p) {                                   \
    touch(order::Access::write, p, bytes, __builtin_return_address(0)); \
  }                                                                     \
  void __tsan_unaligned_read##bytes(void* p) {                          \
    touch(order::Access::read, p, bytes, __builtin_return_address(0));  \
  }                                                                     \
  void __tsan_unaligned_write##bytes(void* p) {                         \
    touch(order::Access::write, p, bytes, __builtin_return_address(0)); \
  }

extern "C" {
TILELACE_ACCESS(1)
TILELACE_ACCESS(2)
TILELACE_ACCESS(4)
TILELACE_ACCESS(8)
TILELACE_ACCESS(16)
void __tsan_read_range(void* p, std::size_t bytes) {
  touch(order::Access::read, p, bytes, __builtin_return_address(0));
}
void __tsan_write_range(void* p, std::size_t bytes) {
  touch(order::Access::write, p, bytes, __builtin_return_address(0));
}
void __tsan_vptr_update(void* /*p*/, void* /*value*/) {}
// Of variables that are made once.
char __tsan_atomic8_load(const volatile char* p, int /*order*/) {
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
void __tsan_init() {}
}
