// SPDX-License-Identifier: Apache-2.0
// The emulated driver: memory, and attributes of devices.
#pragma once
#include <cstddef>

namespace tilelace::emulated {

struct Memory {
  std::size_t bytes = 0;
  int device = 0;
  int type = 0;  ///< a cudaMemoryType; 0: memory that the runtime does not know
};

/// Maps memory that begins at a multiple of order::kRegionUnit; `bytes` is one, too. Null: there is
/// none.
std::byte* map_region(std::size_t bytes);
/// Allocates memory, filled with NaNs.
void* take_memory(std::size_t bytes, int device, int type);
void give_memory(void* p);
void note_memory(void* p, const Memory& memory);
void forget_memory(void* p);
Memory find_memory(const void* p);

/// The value of the attribute with this number. Driver and runtime use the same numbers.
int device_attribute(int attribute);

/// The emulated driver function of this name; null if it is not emulated.
void* driver_function(const char* name);

/// What the emulated cuTensorMapEncodeTiled writes into a CUtensorMap: of a matrix, columns first.
struct TensorMap {
  std::byte* data;
  std::size_t extents[2];  ///< in elements
  std::size_t stride;      ///< in bytes, from one row to the next
  unsigned box[2];
  bool swizzled;
};

}  // namespace tilelace::emulated
