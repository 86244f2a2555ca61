// SPDX-License-Identifier: Apache-2.0
// The driver's part: memory, and what a device says of itself.
#pragma once
#include <cstddef>

namespace tilelace::emulated {

struct Memory {
  std::size_t bytes = 0;
  int device = 0;
  int type = 0;  ///< a cudaMemoryType; 0: not the runtime's
};

/// Filled with NaNs.
void* take_memory(std::size_t bytes, int device, int type);
void give_memory(void* p);
void note_memory(void* p, const Memory& memory);
void forget_memory(void* p);
Memory find_memory(const void* p);

/// By the driver's number of the attribute, which is the runtime's, too.
int device_attribute(int attribute);

/// By name; null: not emulated.
void* driver_function(const char* name);

/// What cuTensorMapEncodeTiled leaves in a CUtensorMap.
struct TensorMap {
  std::byte* data;
  std::size_t extents[3], strides[3];  ///< elements; bytes, of which strides[0] is an element's
  unsigned box[3];
  int dims;
  bool swizzled;
};

}  // namespace tilelace::emulated
