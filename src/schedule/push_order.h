// SPDX-License-Identifier: Apache-2.0
// The sends that a GEMM kernel makes in an ag_gemm with transport `store`: those of run_sends
// (ag_gemm.h) and, in a whole order, own rows to the own slot. A piece is one chunk of the own
// shard, sent to one rank.
#pragma once
#include "schedule/index.h"

namespace tilelace::schedule {

struct PushOrder {
  int rank = 0, ranks = 1;
  int targets = 0;  ///< number of receivers of a chunk: peers, and this rank if it stages own rows
  int pieces = 0;
  int first_flag = 0;      ///< flag of the first own chunk, on every rank
  std::int64_t begin = 0;  ///< first own row
  std::int64_t rows = 0;   ///< number of own rows
  std::int64_t chunk_rows = 1;

  struct Send {
    int peer;
    std::int64_t first, last;  ///< rows [first, last) of the own shard
    int flag;
  };
  [[nodiscard]] TILELACE_HD constexpr Send piece(int i) const {
    const int chunk = i / targets;
    const int peer = rank + 1 + i - chunk * targets;
    return {peer < ranks ? peer : peer - ranks, chunk * chunk_rows,
            min_of((chunk + 1) * chunk_rows, rows), first_flag + chunk};
  }

  /// Makes worker w's share of the sends. Verbs: push(peer, range of own rows), signal(peer, flag).
  template <class Verbs>
  TILELACE_ROLE void run(int worker, int workers, Verbs& v) const {
    for (int i = worker; i < pieces; i += workers) {
      const Send s = piece(i);
      v.push(s.peer, s.first, s.last);
      v.signal(s.peer, s.flag);
    }
  }
};

}  // namespace tilelace::schedule
