// SPDX-License-Identifier: Apache-2.0
// Whether each way of a row computes what it should, with the graph that was timed.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "operands.h"
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
  /// Small integers: partial sums at sampled places, their sum in sampled rows.
  Verified check_sum(const Row& row, const Call& call, const Variant& variant);
  std::string compare_rows(const Row& row, const Call& call);
  [[nodiscard]] std::vector<std::byte> fetch_rows(const Row& row, const std::byte* from,
                                                  const std::vector<std::int64_t>& rows) const;
  void finish() { nccl_.finish(rank_.stream, "data of a check", kFinishSeconds); }

  Rank& rank_;
  cuda::NcclGroup& nccl_;
  Timer& timer_;
  const Operands& operands_;
  Board& board_;
};

}  // namespace tilelace::gpu_test
