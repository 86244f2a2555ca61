// SPDX-License-Identifier: Apache-2.0
// Memory of equal size on every rank: anonymous memory for threads, memfds for processes. None of
// it has a name in a file system.
#pragma once
#include <cstddef>
#include <memory>

#include "comm/unique_fd.h"

namespace tilelace::comm {

/// Memory of equal size on every rank: peer(r) = base + r * stride, in one reserved address range.
class SymmetricMemory {
 public:
  /// Takes over a mapping of ranks * stride bytes.
  SymmetricMemory(std::byte* base, int ranks, std::size_t bytes, std::size_t stride)
      : base_(base), ranks_(ranks), bytes_(bytes), stride_(stride) {}
  SymmetricMemory(const SymmetricMemory&) = delete;
  SymmetricMemory& operator=(const SymmetricMemory&) = delete;
  ~SymmetricMemory();

  [[nodiscard]] std::byte* peer(int rank) const {
    return base_ + static_cast<std::size_t>(rank) * stride_;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t stride() const { return stride_; }
  [[nodiscard]] int ranks() const { return ranks_; }

 private:
  std::byte* base_;
  int ranks_;
  std::size_t bytes_;
  std::size_t stride_;
};

/// `bytes` rounded up to whole pages (at least one page). Error: usage, if all ranks together
/// exceed 2^46 bytes.
std::size_t stride_of(std::size_t bytes, int ranks);

/// Zero-filled memory of all ranks, for threads of this process. Errors: usage, system.
std::shared_ptr<SymmetricMemory> make_anonymous(std::size_t bytes, int ranks);

/// A memfd of this size, sealed so that a process that maps it can rely on the size.
UniqueFd make_sealed_memfd(std::size_t stride);

/// Throws (kind peer) unless `fd` is a memfd of this size with the seals of make_sealed_memfd.
/// Without these seals a peer could truncate the file, and reading it here would raise SIGBUS.
void check_sealed_memfd(int fd, std::size_t stride, int owner);

/// Reserves an address range for all ranks, with nothing mapped yet.
std::shared_ptr<SymmetricMemory> reserve(std::size_t bytes, int ranks);

/// Maps a rank's memfd at its place in the reserved range.
void map_into(const SymmetricMemory& range, int rank, int fd);

}  // namespace tilelace::comm
