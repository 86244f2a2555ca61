// SPDX-License-Identifier: Apache-2.0
// Bulk copies and warpgroup products, which a GPU executes asynchronously to its threads. Each
// takes effect at a random time between its instruction and the end of the wait for it.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "machine/machine.h"

namespace tilelace::emulated {

/// Copies a box of a matrix to shared-memory address `to` of every CTA in `mask`. In each of these
/// CTAs, the bytes arrive at the mbarrier at address `barrier`.
void tensor_load(std::uint32_t to, const CUtensorMap& map, std::uint32_t barrier, int x, int y,
                 unsigned mask);
void tensor_store(const CUtensorMap& map, std::uint32_t from, int x, int y);
void send_word(std::uint32_t to, std::uint32_t barrier, int rank, int word);
void bulk_load(std::uint32_t to, const void* from, std::uint32_t bytes, std::uint32_t barrier);

/// `land` gets the bytes that were read from shared memory and writes them to their destination.
void bulk_store(std::uint32_t from, std::uint32_t bytes,
                std::function<void(const std::byte*, const Asked&)> land);
/// Waits until at most `most` groups of this thread's stores still have to read (!read: to write).
void await_stores(int most, bool read);

/// The operands and the sums of a warpgroup's product, over 16 steps of k.
struct ProductTile {
  static constexpr int kRows = 64, kMostCols = 256, kSteps = 16;
  float a[kRows][kSteps], b[kSteps][kMostCols], sums[kRows][kMostCols];
};
void multiply(ProductTile& tile, int cols);

/// Requests the running thread's part of a product.
void ask_product(const Product& product);
/// Records that a warpgroup's i-th product reads `operand`, a matrix of `rows` rows of 128 bytes.
void read_operand(Threads threads, std::size_t i, std::uint64_t operand, unsigned rows);
void commit_products();
void await_products(int most);

void load_shared(std::uint32_t from, void* to, std::uint32_t bytes);
void store_shared(std::uint32_t to, const void* from, std::uint32_t bytes);
void store_shared_least(std::uint32_t to, int value);
void init_barrier(std::uint32_t at, int arrivals);
/// Whether the mbarrier's phase of this parity has ended.
bool test_barrier(std::uint32_t at, int parity);
void store_matrices(std::uint32_t at, const std::uint32_t (&r)[4], bool transposed);

void launch_dependents();
void wait_prerequisites();

}  // namespace tilelace::emulated
