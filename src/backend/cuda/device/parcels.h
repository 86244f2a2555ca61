// SPDX-License-Identifier: Apache-2.0
// Functions for parcels (a rank's data for one peer), for finishing sums, and for entering and
// admitting calls. A parcel may have any alignment, and each pair of ranks may have its own hash.
#pragma once
#include "backend/cuda/collectives/exchange.h"
#include "backend/cuda/device/activation.h"
#include "backend/cuda/device/call.h"
#include "backend/cuda/device/reductions.h"
#include "backend/cuda/device/unit_wait.h"
#include "comm/cuda_pairs.h"

namespace tilelace::cuda {

/// A parcel that one thread loads and stores in units of 16 bytes.
class Units {
 public:
  TILELACE_DEVICE explicit Units(const ParcelAt& p)
      : data_(p.data),
        bytes_(p.bytes),
        aligned_(reinterpret_cast<std::uintptr_t>(p.data) % schedule::kUnitBytes == 0) {}

  /// The rest of the parcel, beginning with `unit`.
  TILELACE_DEVICE Units from(schedule::Index unit) const {
    Units rest = *this;
    rest.data_ += unit * schedule::kUnitBytes;
    rest.bytes_ -= unit * schedule::kUnitBytes;
    return rest;
  }
  /// Loads a unit; bytes beyond the parcel's end are 0.
  TILELACE_DEVICE uint4 load(schedule::Index unit) const {
    const std::int64_t at = unit * schedule::kUnitBytes;
    if (aligned_ && at + schedule::kUnitBytes <= bytes_)
      return __ldcg(reinterpret_cast<const uint4*>(data_ + at));
    return load_bytes(at);
  }
  TILELACE_DEVICE void store(schedule::Index unit, const uint4& v) const {
    const std::int64_t at = unit * schedule::kUnitBytes;
    if (aligned_ && at + schedule::kUnitBytes <= bytes_)
      *reinterpret_cast<uint4*>(data_ + at) = v;
    else
      store_bytes(at, v);
  }

 private:
  TILELACE_DEVICE uint4 load_bytes(std::int64_t at) const {
    std::uint64_t half[2] = {};
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll 1
      for (int i = 0; i < 8 && at + 8 * h + i < bytes_; ++i)
        half[h] |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(data_[at + 8 * h + i]))
                   << 8 * i;
    return {static_cast<std::uint32_t>(half[0]), static_cast<std::uint32_t>(half[0] >> 32),
            static_cast<std::uint32_t>(half[1]), static_cast<std::uint32_t>(half[1] >> 32)};
  }
  TILELACE_DEVICE void store_bytes(std::int64_t at, const uint4& v) const {
    const std::uint64_t half[2] = {static_cast<std::uint64_t>(v.y) << 32 | v.x,
                                   static_cast<std::uint64_t>(v.w) << 32 | v.z};
#pragma unroll
    for (int h = 0; h < 2; ++h)
#pragma unroll 1
      for (int i = 0; i < 8 && at + 8 * h + i < bytes_; ++i)
        data_[at + 8 * h + i] = static_cast<std::byte>(half[h] >> 8 * i & 0xffU);
  }

  std::byte* data_;
  std::int64_t bytes_;
  bool aligned_;
};

/// Reads the parameters, since their first read is slow, and waits for the end of the previous
/// kernel. Then lets the next kernel start once all CTAs of this kernel run. On a shared device the
/// next kernel must wait, since it would take SMs from other communicators.
template <class Params>
TILELACE_DEVICE void begin_exchange(const Params& p, const ExchangeParams& e) {
  constexpr int kStep = 64;  // bytes of a line of the constant cache
  const auto* const bytes = reinterpret_cast<const char*>(&p);
  std::uint32_t seen = 0;
#pragma unroll
  for (int at = 0; at < static_cast<int>(sizeof p); at += kStep)
    seen |= *reinterpret_cast<const std::uint32_t*>(bytes + at);
  float kept = __uint_as_float(seen);
  ptx::pin(kept);
  ptx::wait_prerequisites();
  if (e.lets_next_begin) ptx::launch_dependents();
}

/// Returns the hash plus *p.word if there is a word, which the host does not know. `kWords`:
/// whether there may be a word. Kernels of norms have no word and no registers for it.
template <bool kWords>
TILELACE_DEVICE std::uint32_t with_word(const ExchangeParams& p, std::uint32_t hash) {
  return !kWords || p.word == nullptr ? hash : hash + static_cast<std::uint32_t>(__ldcg(p.word));
}

template <bool kWords>
TILELACE_DEVICE bool refuses(const ExchangeParams& p) {
  return kWords && p.wrong != nullptr && __ldcg(p.wrong) != 0;
}

/// Like send_headers, with a hash for each peer. The stores may be relaxed, since a header says
/// only that earlier calls have ended, and they ended with the previous kernel. (Direct sums fence
/// first, since peers read their inputs.) Called by: one warp of the call's first kernel.
template <bool kWords = false>
TILELACE_DEVICE void tell_peers(const ExchangeParams& p, std::uint32_t epoch) {
  const CallParams& c = p.call;
  const unsigned own =
      (epoch & 1U) * static_cast<unsigned>(c.ranks) + static_cast<unsigned>(c.rank);
  for (int i = 1 + (static_cast<int>(threadIdx.x) & 31); i < c.ranks; i += 32) {
    const int peer = (c.rank + i) % c.ranks;
    auto* const headers = reinterpret_cast<comm::Header*>(c.memory_at(peer) + c.headers);
    const std::uint32_t told = refuses<kWords>(p) ? p.refusal : with_word<kWords>(p, p.told[peer]);
    // relaxed: the order of kernels suffices
    comm::CudaPairs::store(headers + own, comm::make_header(epoch, told));
  }
}

/// Like count_call, but does nothing if another kernel of the call counts it, and a grid of one CTA
/// does not check whether its CTA is the last one.
TILELACE_DEVICE void count_exchange(const CallParams& c, std::uint32_t epoch) {
  if (!c.last) return;
  if (gridDim.x > 1) return count_call(c, epoch);
  c.counter->next[(epoch + 1) & 1U] = epoch + 1;
  c.counter->done = epoch;
}

/// The word in this rank's memory into which the peer writes its header.
TILELACE_DEVICE const comm::Header* header_of(const ExchangeParams& p, int peer,
                                              std::uint32_t epoch) {
  const CallParams& c = p.call;
  return reinterpret_cast<const comm::Header*>(c.memory_at(c.rank) + c.headers) +
         (epoch & 1U) * static_cast<unsigned>(c.ranks) + peer;
}

/// Whether header `seen` shows that the peer makes the same call or is in a later call.
template <bool kWords = false>
TILELACE_DEVICE bool agrees_with(const ExchangeParams& p, int peer, std::uint32_t epoch,
                                 comm::Header seen) {
  const WaitPlace place{Role::store, 0, -1, peer, kHeaderFlag};
  const std::uint32_t expected =
      refuses<kWords>(p) ? p.refusal + 1 : with_word<kWords>(p, p.expected[peer]);
  return comm::header_epoch(seen) != epoch || agrees(p.call.wait, place, seen, expected);
}

/// Like wait_headers, but with relaxed loads, which make no data of peers visible. It only tells
/// whether results may be stored. Called by: every lane of one warp.
template <bool kWords = false>
TILELACE_DEVICE bool hear_peers(const ExchangeParams& p, std::uint32_t epoch) {
  const CallParams& c = p.call;
  bool good = true;
  UnitWait wait(c.wait, epoch);
  for (int peer = static_cast<int>(threadIdx.x) & 31; peer < c.ranks && good; peer += 32) {
    if (peer == c.rank) continue;
    const WaitPlace place{Role::store, 0, -1, peer, kHeaderFlag};
    comm::Header seen = 0;
    const auto here = [&] {
      comm::CudaPairs::load(header_of(p, peer, epoch), seen);  // relaxed: no data depends on `seen`
      return comm::epoch_reached(comm::header_epoch(seen), epoch);
    };
    while (good && !here()) good = wait.again(place);
    good = good && agrees_with<kWords>(p, peer, epoch, seen);
  }
  return __all_sync(~0U, good ? 1 : 0) != 0;
}

TILELACE_HD constexpr const ExchangeParams& exchange_of(const ExchangeParams& p) { return p; }
TILELACE_HD constexpr const ExchangeParams& exchange_of(const ProductSum& p) { return p.exchange; }

/// The final value of a sum. `unit`: index of the 16-byte unit among this rank's sums.
template <class Reduced>
TILELACE_DEVICE uint4 finished(const ExchangeParams& p, Reduced& sum, schedule::Index /*unit*/) {
  return sum.done(p.divisor);
}
template <class Element>
TILELACE_DEVICE uint4 finished(const ProductSum& p, FloatReduction<Element, false>& sum,
                               schedule::Index unit) {
  if (p.bias != nullptr) {
    const std::uint32_t at = p.first_column + static_cast<std::uint32_t>(unit);
    add_elements<Element>(sum.floats(), __ldg(p.bias + at % p.row_units));
  }
  if (p.residual != nullptr) add_elements<Element>(sum.floats(), p.residual[unit]);
  if (p.activation != Activation::none) activate<8>(p.activation, sum.floats());
  return sum.done(1.0F);
}

}  // namespace tilelace::cuda
