// SPDX-License-Identifier: Apache-2.0
// Flags and headers of an exchange whose workers are warps. All lanes call every function.
#pragma once
#include "backend/cuda/device/parcels.h"
#include "backend/cuda/device/publish.h"
#include "backend/cuda/device/unit_wait.h"

namespace tilelace::cuda {

class WarpFlags {
 public:
  TILELACE_DEVICE WarpFlags(const ExchangeParams& p, std::uint32_t epoch) : p_(p), epoch_(epoch) {}

  [[nodiscard]] TILELACE_DEVICE static int lane() { return static_cast<int>(threadIdx.x) & 31; }
  [[nodiscard]] TILELACE_DEVICE bool failed() const { return failed_; }

  /// Notes a flag to raise, in the next lane that has none. flush() raises all noted flags at once,
  /// since each separate release would wait for all stores that the SM has in flight.
  TILELACE_DEVICE void signal(int to, schedule::Index word, std::uint32_t round) {
    if (signals_++ != lane()) return;
    told_ = words_of(to) + word;
    said_ = round;
  }
  /// Raises the noted flags. Must be called before more data is stored, and before a wait.
  TILELACE_DEVICE void flush() {
    if (signals_ == 0) return;
    __syncwarp();  // so that each lane's release covers the stores of all lanes
    if (lane() < signals_ && !failed_) comm::signal<comm::CudaAtomics>(told_, epoch_, said_);
    signals_ = 0;
  }

  /// Counts the call as done. The next settle() then also waits for the peers' headers.
  TILELACE_DEVICE void admit() {
    flush();
    __syncthreads();  // every thread has read the call's number before it changes
    if (threadIdx.x == blockDim.x - 1) count_exchange(p_.call, epoch_);
    admits_ = true;
  }

  TILELACE_DEVICE void wait(schedule::Index word) {
    if (waits_++ == lane()) awaited_ = word;
  }

  /// Waits until the words given to wait() carry this round; each lane polls one word. After
  /// admit(), lanes from kMaxGpuRanks on also poll the peers' headers. No word can be of a later
  /// round or call, since a peer overwrites a word only once this rank has taken the word's data.
  TILELACE_DEVICE void settle(std::uint32_t round) {
    flush();
    if (waits_ == 0 && !admits_) return;
    const int from = lane() - schedule::kMaxGpuRanks;
    const bool hears = admits_ && from >= 0 && from < p_.schedule.ranks && from != p_.schedule.rank;
    bool here = failed_ || !(hears || awaited_ >= 0), good = !failed_;
    UnitWait wait(p_.call.wait, epoch_);
    while (__all_sync(~0U, here ? 1 : 0) == 0) {
      if (!here) here = look(hears, from, round, good);
      if (!here && !wait.again(place_of(hears, from))) here = true, good = false;
    }
    waits_ = 0;
    awaited_ = -1;
    admits_ = false;
    failed_ = __all_sync(~0U, good ? 1 : 0) == 0;
    __syncwarp();  // unlike the vote, makes what each lane acquired visible to all lanes
  }

 private:
  /// Whether this lane's word, or header if `hears`, is here. `good`: whether the header agrees.
  TILELACE_DEVICE bool look(bool hears, int from, std::uint32_t round, bool& good) const {
    const comm::Header* const word =
        hears ? header_of(p_, from, epoch_) : words_of(p_.schedule.rank) + awaited_;
    const comm::Header seen = comm::CudaAtomics::load_acquire(word);
    if (!hears) return seen == comm::make_header(epoch_, round);
    if (!comm::epoch_reached(comm::header_epoch(seen), epoch_)) return false;
    good = agrees_with<true>(p_, from, epoch_, seen);
    return true;
  }
  [[nodiscard]] TILELACE_DEVICE WaitPlace place_of(bool hears, int from) const {
    if (hears) return {Role::store, 0, -1, from, kHeaderFlag};
    const auto of = static_cast<int>(awaited_ / (p_.schedule.ring * p_.schedule.workers));
    return {Role::reduce, static_cast<int>(blockIdx.x), -1, of % p_.schedule.ranks,
            static_cast<std::uint32_t>(awaited_)};
  }
  [[nodiscard]] TILELACE_DEVICE comm::Header* words_of(int rank) const {
    return reinterpret_cast<comm::Header*>(p_.call.flags_at(rank));
  }

  const ExchangeParams& p_;
  std::uint32_t epoch_;
  int signals_ = 0, waits_ = 0;   ///< signals_: flags noted so far; waits_: words awaited so far
  comm::Header* told_ = nullptr;  ///< the word that this lane raises
  std::uint32_t said_ = 0;        ///< the round that this word will carry
  schedule::Index awaited_ = -1;  ///< the word that this lane waits for
  bool admits_ = false, failed_ = false;
};

/// Loads each 16-byte unit of a part and calls store(unit, value). Each lane has kUnits loads in
/// flight.
template <int kUnits, class Load, class Store>
TILELACE_DEVICE void move_units(schedule::RowRange part, const Load& load, const Store& store) {
  const auto units = static_cast<int>(part.size());
  for (int at = WarpFlags::lane(); at < units; at += kUnits * 32) {
    uint4 v[kUnits];
#pragma unroll
    for (int u = 0; u < kUnits; ++u)
      if (at + u * 32 < units) v[u] = load(at + u * 32);
#pragma unroll
    for (int u = 0; u < kUnits; ++u)
      if (at + u * 32 < units) store(at + u * 32, v[u]);
  }
}

}  // namespace tilelace::cuda
