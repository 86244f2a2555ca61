// SPDX-License-Identifier: Apache-2.0
// Whether each way of a row computes what it should, with the graph that was timed.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "operands.h"
#include "schedule/rows.h"
#include "timer.h"

namespace tilelace::gpu_test {

struct Verified {
  std::optional<double> error;  ///< relative, against fp64; the largest of all ranks
  std::optional<bool> exact;    ///< integers came out bit by bit
  std::string trouble;          ///< empty: all right, on every rank
};

/// What ranks lay out for each other between two meetings.
using Board = std::vector<std::vector<std::byte>>;

class Verifier {
 public:
  /// `board` has a place a rank and is the same object on all of them.
  Verifier(Rank& rank, cuda::NcclGroup& nccl, Timer& timer, const Operands& operands, Board& board)
      : rank_(rank), nccl_(nccl), timer_(timer), operands_(operands), board_(board) {}

  /// Collective. Leaves other data in some copies of the row's tensors.
  Verified check(const Row& row, const Variant& variant);

 private:
  /// The product of everyone's rows, which are made here, in fp64 at sampled places.
  Verified check_gather(const Row& row, const Call& call, const Variant& variant);
  /// Small integers: partial sums at sampled places, their sum in sampled rows, and check sums of
  /// all rows.
  Verified check_sum(const Row& row, const Call& call, const Variant& variant);
  using Rows = std::vector<std::int64_t>;
  /// What the row of the result should be, by everyone's products of sampled rows.
  std::string compare_rows(const Row& row, const Call& call, const schedule::RowSplit& split);
  /// The same of the sums over the rows of each shard.
  std::string compare_totals(const Row& row, const Call& call, const schedule::RowSplit& split);
  /// Lays the own bytes out for all; everyone is done with the ones before.
  void publish(const void* device, std::size_t bytes);
  /// Device memory of at least so many bytes; what was in it is lost.
  std::byte* scratch(std::size_t bytes);
  void finish() { nccl_.finish(rank_.stream, "data of a check", kFinishSeconds); }

  Rank& rank_;
  cuda::NcclGroup& nccl_;
  Timer& timer_;
  const Operands& operands_;
  Board& board_;
  std::unique_ptr<void, cudaError_t (*)(void*)> scratch_{nullptr, cudaFree};
  std::size_t scratch_bytes_ = 0;
};

}  // namespace tilelace::gpu_test
