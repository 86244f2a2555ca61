// SPDX-License-Identifier: Apache-2.0
// The map of a routing, by one cluster: a stable sort of (token, slot) by expert. Each warp counts
// its own pairs, which lie one after the other, and writes how many of a pair's expert came before
// it; counts of the warps and CTAs before say where its rows begin. No atomics: the order is that
// of the pairs.
#include <type_traits>

#include "backend/cuda/device/cluster_shared.h"
#include "backend/cuda/device/ptx.h"
#include "backend/cuda/moe/moe_kernels.h"

namespace tilelace::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr int kMostCtas = 8;
constexpr int kPairsOfCta = 2048;  ///< from which on another CTA pays
constexpr int kAtOnce = 8;         ///< ids that a lane loads together

struct MapParams {
  schedule::MoeMap map;
  const void* ids;
  std::int32_t* out;
  std::uint32_t each;  ///< pairs of a warp; a multiple of 32
  std::int32_t bits;   ///< that tell experts, and none, apart
};

/// What a CTA tells the others: rows of each expert, then the hash of its ids and the first wrong.
struct Counts {
  int experts;
  [[nodiscard]] TILELACE_HD constexpr int hash() const { return experts; }
  [[nodiscard]] TILELACE_HD constexpr int wrong() const { return experts + 1; }
  [[nodiscard]] TILELACE_HD constexpr int words() const { return (experts + 3) / 2 * 2; }
};

/// Words of shared memory: kWarps x experts counts, what each CTA told, first rows, sums of warps.
constexpr int kSums = 2 * kWarps;
std::size_t shared_bytes(int experts, int ctas) {
  const auto words = Counts{experts}.words();
  return 4 * static_cast<std::size_t>(kWarps * experts + (ctas + 2) * words + kSums);
}

constexpr std::uint32_t kNone = 0xFFFFFFFFU;

/// Id: std::int32_t or std::int64_t.
template <class Id>
class MapMaker {
  using Bits = std::make_unsigned_t<Id>;

 public:
  TILELACE_DEVICE MapMaker(const MapParams& p, std::uint32_t* memory, ptx::Shared told)
      : p_(p),
        counts_{static_cast<int>(p.map.here)},
        thread_(static_cast<int>(threadIdx.x)),
        warp_(thread_ / 32),
        lane_(thread_ & 31),
        cta_(static_cast<int>(blockIdx.x)),
        ctas_(static_cast<int>(gridDim.x)),
        first_(static_cast<std::uint32_t>(cta_ * kWarps + warp_) * p.each),
        end_(min(first_ + p.each, static_cast<std::uint32_t>(p.map.pairs()))),
        of_warps_(memory),
        of_ctas_(of_warps_ + kWarps * counts_.experts),
        own_(of_ctas_ + ctas_ * counts_.words()),
        begins_(own_ + counts_.words()),
        sums_(begins_ + counts_.words()),
        told_(told) {}

  TILELACE_DEVICE void run() {
    count_pairs();
    tell();
    ptx::barrier_wait(told_, 0);
    find_begins();
    place();
    finish();
  }

 private:
  /// MoeMap::local and is_id.
  [[nodiscard]] TILELACE_DEVICE int local(Id id) const {
    const Bits expert = static_cast<Bits>(id) - static_cast<Bits>(p_.map.first);
    return expert < static_cast<Bits>(p_.map.here) ? static_cast<int>(expert) : -1;
  }
  [[nodiscard]] TILELACE_DEVICE bool is_id(Id id) const {
    return static_cast<Bits>(id) + 1 <= static_cast<Bits>(p_.map.experts);
  }

  /// Calls each(pair, is there, id, what `kept` has for it) for the warp's pairs, 32 at a time.
  template <class Each>
  TILELACE_DEVICE void for_pairs(const std::int32_t* kept, const Each& each) const {
    const Id* const all = static_cast<const Id*>(p_.ids);
    for (std::uint32_t at = first_; at < end_; at += 32 * kAtOnce) {
      const std::uint32_t mine = at + static_cast<std::uint32_t>(lane_);
      Id ids[kAtOnce];
      std::int32_t values[kAtOnce];
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) {
        const bool there = mine + 32 * i < end_;
        ids[i] = there ? all[mine + 32 * i] : -1;
        values[i] = there && kept != nullptr ? kept[mine + 32 * i] : 0;
      }
#pragma unroll
      for (unsigned i = 0; i < kAtOnce; ++i) {
        if (at + 32 * i >= end_) break;
        each(mine + 32 * i, mine + 32 * i < end_, ids[i], values[i]);
      }
    }
  }
  /// The lanes that have the same expert as this one, or none; bit by bit, which takes a third of
  /// the time of a match.
  [[nodiscard]] TILELACE_DEVICE unsigned same(int expert) const {
    unsigned others = 0;
#pragma unroll 4
    for (int b = p_.bits; b > 0; --b, expert >>= 1) {
      const bool mine = (expert & 1) != 0;
      others |= __ballot_sync(~0U, mine) ^ (mine ? ~0U : 0U);
    }
    return ~others;
  }

  TILELACE_DEVICE void count_pairs() {
    std::uint32_t* const mine = of_warps_ + warp_ * counts_.experts;
    for (int e = lane_; e < counts_.experts; e += 32) mine[e] = 0;
    __syncwarp();
    std::uint32_t hash = 0;
    std::uint32_t wrong = kNone;
    std::int32_t* const row_of = p_.out + p_.map.row_of();
    for_pairs(nullptr, [&](std::uint32_t pair, bool there, Id id, std::int32_t) {
      const int expert = there ? local(id) : -1;
      if (there) hash += schedule::id_hash(pair, id);
      if (there && !is_id(id)) wrong = min(wrong, pair + 1);
      const unsigned together = same(expert);
      const unsigned before = together & ((1U << lane_) - 1);
      std::uint32_t rank = 0;
      if (expert >= 0) rank = mine[expert] + static_cast<std::uint32_t>(__popc(before));
      __syncwarp();
      if (expert >= 0 && before == 0) mine[expert] += static_cast<std::uint32_t>(__popc(together));
      __syncwarp();
      if (there) row_of[pair] = static_cast<std::int32_t>(rank);
    });
    for (int by = 16; by > 0; by /= 2) {
      hash += __shfl_xor_sync(~0U, hash, by);
      wrong = min(wrong, __shfl_xor_sync(~0U, wrong, by));
    }
    if (lane_ == 0) {
      sums_[warp_] = hash;
      sums_[kWarps + warp_] = wrong;
    }
    __syncthreads();
  }

  /// Counts of a CTA's warps become those of all warps before; the CTA's go to all CTAs.
  TILELACE_DEVICE void tell() {
    for (int e = thread_; e < counts_.experts; e += kThreads) {
      std::uint32_t sum = 0;
#pragma unroll 8
      for (int w = 0; w < kWarps; ++w) {
        const std::uint32_t here = of_warps_[w * counts_.experts + e];
        of_warps_[w * counts_.experts + e] = sum;
        sum += here;
      }
      own_[e] = sum;
    }
    if (thread_ == kThreads - 1) {
      std::uint32_t hash = 0;
      std::uint32_t wrong = kNone;
      for (int w = 0; w < kWarps; ++w) {
        hash += sums_[w];
        wrong = min(wrong, sums_[kWarps + w]);
      }
      own_[counts_.hash()] = hash;
      own_[counts_.wrong()] = wrong;
      if (counts_.words() > counts_.wrong() + 1) own_[counts_.words() - 1] = 0;
    }
    __syncthreads();
    const int twos = counts_.words() / 2;
    for (int i = thread_; i < twos * ctas_; i += kThreads) {
      const int two = i % twos;
      auto* const to = reinterpret_cast<float2*>(of_ctas_ + cta_ * counts_.words()) + two;
      const float2 value{__uint_as_float(own_[2 * two]), __uint_as_float(own_[2 * two + 1])};
      send_at(to, i / twos, value, told_);
    }
  }

  /// begins_[e]: the first row of this CTA's pairs of an expert.
  TILELACE_DEVICE void find_begins() {
    std::uint32_t before = 0;
    std::uint32_t all = 0;
    if (thread_ < counts_.experts)
      for (int c = 0; c < ctas_; ++c) {
        const std::uint32_t here = of_ctas_[c * counts_.words() + thread_];
        before += c < cta_ ? here : 0;
        all += here;
      }
    std::uint32_t through = all;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      const std::uint32_t other = __shfl_up_sync(~0U, through, by);
      if (lane_ >= by) through += other;
    }
    if (lane_ == 31) sums_[warp_] = through;
    __syncthreads();
    std::uint32_t begin = through - all;
    for (int w = 0; w < warp_; ++w) begin += sums_[w];
    if (thread_ < counts_.experts) begins_[thread_] = begin + before;
    std::int32_t* const out = p_.out + schedule::MoeMap::begins() + thread_;
    if (cta_ == 0 && thread_ < counts_.experts) out[0] = static_cast<std::int32_t>(begin);
    if (cta_ == 0 && thread_ == counts_.experts - 1)
      out[1] = static_cast<std::int32_t>(begin + all);
    __syncthreads();
  }

  TILELACE_DEVICE void place() {
    const std::uint32_t* const mine = of_warps_ + warp_ * counts_.experts;
    std::int32_t* const row_of = p_.out + p_.map.row_of();
    for_pairs(row_of, [&](std::uint32_t pair, bool there, Id id, std::int32_t rank) {
      if (!there) return;
      const int expert = local(id);
      std::uint32_t row = kNone;
      if (expert >= 0) row = begins_[expert] + mine[expert] + static_cast<std::uint32_t>(rank);
      row_of[pair] = static_cast<std::int32_t>(row);
    });
  }

  /// Rows that nobody has, the hash, the first wrong id.
  TILELACE_DEVICE void finish() const {
    std::uint32_t rows = 0;
    for (int w = 0; w < kWarps; ++w) rows += sums_[w];
    std::int32_t* const source_of = p_.out + p_.map.source_of();
    for (std::int64_t i = std::int64_t{rows} + cta_ * kThreads + thread_; i < p_.map.pairs();
         i += std::int64_t{ctas_} * kThreads)
      source_of[i] = -1;
    if (cta_ != 0 || thread_ != 0) return;
    std::uint32_t hash = 0;
    std::uint32_t wrong = kNone;
    for (int c = 0; c < ctas_; ++c) {
      hash += of_ctas_[c * counts_.words() + counts_.hash()];
      wrong = min(wrong, of_ctas_[c * counts_.words() + counts_.wrong()]);
    }
    p_.out[p_.map.hash()] = static_cast<std::int32_t>(hash);
    p_.out[p_.map.wrong()] = wrong == kNone ? 0 : static_cast<std::int32_t>(wrong);
  }

  const MapParams& p_;
  Counts counts_;
  int thread_, warp_, lane_, cta_, ctas_;
  std::uint32_t first_, end_;  ///< the warp's pairs
  std::uint32_t* of_warps_;
  std::uint32_t* of_ctas_;
  std::uint32_t* own_;
  std::uint32_t* begins_;
  std::uint32_t* sums_;
  ptx::Shared told_;
};

template <class Id>
__global__ void __launch_bounds__(kThreads, 1) moe_map_kernel(const __grid_constant__ MapParams p) {
  extern __shared__ __align__(16) std::uint32_t memory[];
  __shared__ std::uint64_t told;
  const ptx::Shared barrier = ptx::shared_address(&told);
  if (threadIdx.x == 0) {
    ptx::barrier_init(barrier, 1);
    // stays: other CTAs count on the barrier, which cluster_sync alone need not show them
    ptx::barrier_init_fence();
    const int words = Counts{static_cast<int>(p.map.here)}.words();
    ptx::barrier_expect(barrier, static_cast<int>(gridDim.x) * words * 4);
  }
  ptx::launch_dependents();
  ptx::wait_prerequisites();
  ptx::cluster_sync();
  MapMaker<Id>(p, memory, barrier).run();
}

auto* kernel_of(bool wide) {
  return wide ? moe_map_kernel<std::int64_t> : moe_map_kernel<std::int32_t>;
}

void load(bool wide) {
  load_with_shared(reinterpret_cast<const void*>(kernel_of(wide)),
                   static_cast<int>(shared_bytes(kMostMoeExperts, kMostCtas)));
}

}  // namespace

cudaError_t enqueue_map(const MakeMap& call, cudaStream_t stream) {
  const schedule::MoeMap& map = call.map;
  const auto most = (map.pairs() + kPairsOfCta - 1) / kPairsOfCta;
  const int ctas = most < 1 ? 1 : most > kMostCtas ? kMostCtas : static_cast<int>(most);
  const std::int64_t together = std::int64_t{ctas} * kWarps * 32;
  const auto each = static_cast<std::uint32_t>((map.pairs() + together - 1) / together * 32);
  std::int32_t bits = 0;
  while (map.here >> bits != 0) ++bits;
  const MapParams params{map, call.ids, call.out, each, bits};
  cudaLaunchAttribute attributes[2]{};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = static_cast<unsigned>(ctas);
  attributes[1].val.clusterDim.y = 1;
  attributes[1].val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(ctas));
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = shared_bytes(static_cast<int>(map.here), ctas);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 2;
  load(call.wide);
  return cudaLaunchKernelEx(&config, kernel_of(call.wide), params);
}

void load_map() {
  for (const bool wide : {false, true}) load(wide);
}

}  // namespace tilelace::cuda
