// SPDX-License-Identifier: Apache-2.0
// Collectives without a GEMM: one schedule for four ops. Every rank sends every peer a parcel
// (nothing, a part or all of its input) and adds or delivers the parcels that arrive.
//
//   all_gather      every peer gets the same parcel; arriving parcels are delivered
//   all_to_all      every peer gets a parcel of its own; arriving parcels are delivered
//   reduce_scatter  a peer gets the part that it sums; arriving parcels are added to the own part
//   all_reduce      one-shot: every peer gets the whole input, so every rank sums all inputs;
//                   two-shot (`shares`): a reduce_scatter,
//                   after which every rank sends its sums to all ranks
//
// In round r, worker w sends chunk r * workers + w of each parcel. Arriving data waits in a ring of
// kRing places per worker and source, so staging does not grow with the call. Ranks do not
// acknowledge data. A worker consumes round r - 1 before it signals round r. So a peer's signal of
// round r - 2 shows that the peer has consumed round r - 3, whose place round r uses. Both ranks of
// a pair have equally many rounds; a rank sends empty rounds after the end of its parcel.
//
// Units may be sent as lines: each unit then carries the call's number, which serves as its flag.
// Such a call has one round, and signal and wait do nothing.
//
// If ranks can access each other's tensors, a call may be direct, without staging. A rank then
// stores parcels and shared sums in the peers' results and reads terms of sums from the peers'
// inputs. A worker raises one flag at each peer when it no longer uses that peer's tensors.
#pragma once
#include <cstdint>

#include "schedule/rows.h"
#include "schedule/verbs.h"

namespace tilelace::schedule {

/// Bytes of a unit, which moves as a whole.
constexpr Index kUnitBytes = 16;
/// Places in a worker's ring for one source. The text above says why three are needed.
constexpr Index kRing = 3;
/// The largest number of rounds of a call in which each round has its own flags.
constexpr Index kMaxExchangeRounds = 256;

/// A worker's part of one round.
struct ExchangeRound {
  int worker = 0;
  Index round = 0;
};

/// The data that a flag announces: a worker's part of a round, either of a parcel or of sums.
struct ExchangeFlag {
  bool sums = false;
  int rank = 0;  ///< source of the parcel, or owner of the sums
  ExchangeRound round;
};

/// One rank's call, for up to kMost ranks. Units are numbered within their parcel or sum.
template <int kMost>
struct ExchangeOf {
  int rank = 0, ranks = 1;
  int workers = 1;
  bool sums = false;     ///< true: arriving data is added; false: it is delivered
  bool shares = false;   ///< every rank gets the sums
  bool direct = false;   ///< true: ranks access the peers' tensors once all ranks are in the call
  Index ring = kRing;    ///< places per worker and source; 1 if units are sent as lines
  Index chunk = 1;       ///< units per chunk
  Index sends[kMost]{};  ///< units for each rank; at the own rank: units that this rank keeps
  Index takes[kMost]{};  ///< units from each rank; if `sums`, equally many from all ranks
  Index owned[kMost]{};  ///< if `shares`: units that each rank sums

  [[nodiscard]] TILELACE_HD constexpr Index rounds_of(Index units) const {
    return ceil_div(ceil_div(units, chunk), workers);
  }
  /// Rounds between this rank and q, in both directions.
  [[nodiscard]] TILELACE_HD constexpr Index pair_rounds(int q) const {
    return max_of(rounds_of(sends[q]), rounds_of(takes[q]));
  }
  [[nodiscard]] TILELACE_HD constexpr Index rounds() const {
    Index most = 0;
    for (int q = 0; q < ranks; ++q) most = max_of(most, pair_rounds(q));
    return most;
  }
  /// Rounds of the sums that rank q shares.
  [[nodiscard]] TILELACE_HD constexpr Index shared_rounds(int q) const {
    return rounds_of(owned[q]);
  }
  /// A worker's part, maybe empty, of a round of a parcel or of sums with this many units.
  [[nodiscard]] TILELACE_HD constexpr RowRange part(ExchangeRound r, Index units) const {
    const Index begin = (r.round * workers + r.worker) * chunk;
    return intersect({begin, begin + chunk}, {0, units});
  }

  /// The receiver's flag that says that this round's part of the source's parcel has arrived.
  [[nodiscard]] TILELACE_HD constexpr Index term(int source, ExchangeRound r) const {
    return (source * kMaxExchangeRounds + r.round) * workers + r.worker;
  }
  /// The receiver's flag that says that this round's part of the owner's sums has arrived.
  [[nodiscard]] TILELACE_HD constexpr Index sum(int owner, ExchangeRound r) const {
    return term(ranks + owner, r);
  }
  [[nodiscard]] TILELACE_HD constexpr Index num_flags() const {
    return (shares ? 2 : 1) * ranks * kMaxExchangeRounds * workers;
  }
  /// What a flag announces; `flag` is below num_flags().
  [[nodiscard]] TILELACE_HD constexpr ExchangeFlag flag_meaning(Index flag) const {
    const Index of = flag / workers;
    const auto area = static_cast<int>(of / kMaxExchangeRounds);
    return {
        area >= ranks, area % ranks, {static_cast<int>(flag % workers), of % kMaxExchangeRounds}};
  }

  /// First unit, at rank `at`, of the place for round r of `source`'s parcel or `owner`'s sums.
  [[nodiscard]] TILELACE_HD constexpr Index term_place(int at, int source, ExchangeRound r) const {
    return place(source < at ? source : source - 1, r);
  }
  [[nodiscard]] TILELACE_HD constexpr Index sum_place(int at, int owner, ExchangeRound r) const {
    return place(ranks - 1 + (owner < at ? owner : owner - 1), r);
  }
  /// Units of staging, that is, of all places.
  [[nodiscard]] TILELACE_HD constexpr Index num_units() const {
    return direct ? 0 : (shares ? 2 : 1) * (ranks - 1) * ring * workers * chunk;
  }

 private:
  [[nodiscard]] TILELACE_HD constexpr Index place(Index of, ExchangeRound r) const {
    return ((of * ring + turn(r)) * workers + r.worker) * chunk;
  }

 protected:
  /// A round's place in the ring, computed in 32 bits, since GPUs divide 64-bit numbers slowly.
  [[nodiscard]] TILELACE_HD constexpr Index turn(ExchangeRound r) const {
    return static_cast<std::uint32_t>(r.round) % static_cast<std::uint32_t>(ring);
  }
};

using Exchange = ExchangeOf<kMaxGpuRanks>;

/// An exchange with one word per place instead of one flag per round. A word's value tells the
/// round, so the number of rounds is unlimited. A word is rewritten only together with its place.
class RingExchange : public Exchange {
 public:
  RingExchange() = default;
  /// Counts rounds once, on the host.
  explicit RingExchange(const Exchange& s) : Exchange(s), rounds_(s.rounds()) {
    for (int q = 0; q < ranks; ++q) {
      pair_rounds_[q] = s.pair_rounds(q);
      shared_rounds_[q] = s.shared_rounds(q);
    }
  }

  [[nodiscard]] TILELACE_HD constexpr Index rounds() const { return rounds_; }
  [[nodiscard]] TILELACE_HD constexpr Index pair_rounds(int q) const { return pair_rounds_[q]; }
  [[nodiscard]] TILELACE_HD constexpr Index shared_rounds(int q) const { return shared_rounds_[q]; }
  [[nodiscard]] TILELACE_HD constexpr Index term(int source, ExchangeRound r) const {
    return (source * ring + turn(r)) * workers + r.worker;
  }
  [[nodiscard]] TILELACE_HD constexpr Index sum(int owner, ExchangeRound r) const {
    return term(ranks + owner, r);
  }
  /// Number of words for terms. Words for sums follow them.
  [[nodiscard]] TILELACE_HD constexpr Index num_terms() const { return ranks * ring * workers; }

 private:
  Index rounds_ = 0;
  Index pair_rounds_[kMaxGpuRanks]{}, shared_rounds_[kMaxGpuRanks]{};
};

/// Role of worker w of s.workers, in a staged call:
///   send(r)     copies this round's part of each parcel to its place at the peer
///   admit()     waits until all ranks have entered this call, so that results may be stored
///   take(r)     adds the round's terms in rank order and stores the sum (a shared sum also at the
///               peers), or delivers the data that arrived and the data that this rank keeps
///   deliver(r)  copies the peers' sums of this round from their places to the user
/// A worker waits only for peers' workers of the same number, which send before they wait.
template <class S, class Verbs>
TILELACE_ROLE void run_staged_exchange(const S& s, int worker, Verbs& v) {
  const Index rounds = s.rounds();
  for (Index step = 0; step < rounds + (s.shares ? 2 : 1); ++step) {
    const ExchangeRound sent{worker, step}, taken{worker, step - 1}, shared{worker, step - 2};
    const bool sends = step<rounds, takes = step> 0 && taken.round < rounds;
    if (sends) v.send(sent);
    if (takes) {
      for (int i = 1; i < s.ranks; ++i) {
        const int p = (s.rank + s.ranks - i) % s.ranks;
        if (taken.round < s.pair_rounds(p)) v.wait(s.term(p, taken));
      }
      v.take(taken);
    }
    // Signals come last: a release waits for earlier stores, which arrive during the work above.
    for (int i = 1; i < s.ranks && sends; ++i) {
      const int q = (s.rank + i) % s.ranks;
      if (step < s.pair_rounds(q)) v.signal(q, s.term(s.rank, sent));
    }
    for (int i = 1; i < s.ranks && takes && s.shares; ++i)
      if (taken.round < s.shared_rounds(s.rank))
        v.signal((s.rank + i) % s.ranks, s.sum(s.rank, taken));
    if (step == 0) v.admit();
    if (step > 1 && s.shares) {
      for (int i = 1; i < s.ranks; ++i) {
        const int p = (s.rank + s.ranks - i) % s.ranks;
        if (shared.round < s.shared_rounds(p)) v.wait(s.sum(p, shared));
      }
      v.deliver(shared);
    }
  }
}

/// The same role in a direct call:
///   admit()  waits until all ranks are in this call, so that inputs and results may be accessed
///   send(r)  stores parcels in the peers' results; not called for sums
///   take(r)  delivers the data that this rank keeps, or stores the sum of all inputs (a shared sum
///            also in every peer's result)
/// A call ends when the flags of round 0 say that no peer uses this rank's tensors any more.
template <class S, class Verbs>
TILELACE_ROLE void run_direct_exchange(const S& s, int worker, Verbs& v) {
  v.admit();
  for (Index r = 0; r < s.rounds(); ++r) {
    if (!s.sums) v.send({worker, r});
    v.take({worker, r});
  }
  for (int i = 1; i < s.ranks; ++i) v.signal((s.rank + i) % s.ranks, s.term(s.rank, {worker, 0}));
  for (int i = 1; i < s.ranks; ++i) v.wait(s.term((s.rank + s.ranks - i) % s.ranks, {worker, 0}));
}

template <class S, class Verbs>
TILELACE_ROLE void run_exchange(const S& s, int worker, Verbs& v) {
  s.direct ? run_direct_exchange(s, worker, v) : run_staged_exchange(s, worker, v);
}

}  // namespace tilelace::schedule
