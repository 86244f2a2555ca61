// SPDX-License-Identifier: Apache-2.0
// The tensors of a row, in as many copies as do not fit in the L2 together.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "backend/cuda/gemm.h"
#include "backend/cuda/nccl.h"
#include "harness.h"
#include "row.h"

namespace tilelace::gpu_test {

constexpr std::array kBufferKinds{cuda::NcclBuffer::plain, cuda::NcclBuffer::registered,
                                  cuda::NcclBuffer::window};

/// Copies of a tensor, used in turn.
struct Copies {
  std::byte* data = nullptr;
  std::size_t pitch = 0;
  int count = 1;
  [[nodiscard]] std::byte* at(int i) const {
    return data + static_cast<std::size_t>(i % count) * pitch;
  }
};

/// The tensors of one call.
struct Call {
  cuda::GemmTensors gemm;
  std::byte* moved = nullptr;   ///< gathered operand or partial sums
  std::byte* result = nullptr;  ///< of the reducing collectives
};

class Operands {
 public:
  /// Collective: memory for the largest of these rows, of the wanted kinds. Errors: usage (too
  /// large), the group's.
  Operands(Rank& rank, cuda::NcclGroup& nccl, const std::vector<Row>& rows,
           const std::vector<cuda::NcclBuffer>& wanted);
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  /// Lays the row's tensors out, normal variates in all of them.
  void use(const Row& row);
  [[nodiscard]] Call call(cuda::NcclBuffer kind, int i) const;
  /// The rank's own rows of a gathered operand.
  [[nodiscard]] std::byte* own_rows(const Row& row, const Call& call) const {
    return call.moved + static_cast<std::size_t>(rank_.rank) * row.shard_bytes();
  }
  /// The kinds of buffers that this machine and library have, on every rank.
  [[nodiscard]] const std::vector<cuda::NcclBuffer>& kinds() const { return kinds_; }
  /// Memory of moved_bytes() for a reference.
  [[nodiscard]] std::byte* reference() const { return reference_->data(); }

 private:
  struct Tensors {
    Copies moved, result;
  };

  Rank& rank_;
  cuda::NcclGroup& nccl_;
  std::vector<cuda::NcclBuffer> kinds_;
  std::array<std::unique_ptr<cuda::NcclMemory>, kBufferKinds.size()> moved_;
  std::unique_ptr<cuda::NcclMemory> weight_, kept_, reference_;
  std::array<Tensors, kBufferKinds.size()> tensors_;
  Copies weights_, kepts_;
  bool gathers_ = false;
};

}  // namespace tilelace::gpu_test
