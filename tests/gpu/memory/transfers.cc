// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <vector>

#include "checks.h"
#include "comm/cuda/host_memory.h"

namespace tilelace::comm::test {
namespace {

constexpr std::size_t kBlock =
    (1U << 20) + 48;  ///< bytes from one rank to another; no whole pieces
constexpr std::size_t kGuard = 4096;
constexpr std::uint32_t kGuardSeed = 0x6a2d;
constexpr int kRounds = 2;

enum class Way { stores, loads, push, pull, bulk_store, add_f32, add_bf16 };
struct WayName {
  Way way;
  const char* name;
};
constexpr std::array kWays{
    WayName{Way::stores, "16-byte stores"},       WayName{Way::loads, "16-byte loads"},
    WayName{Way::push, "copy engine push"},       WayName{Way::pull, "copy engine pull"},
    WayName{Way::bulk_store, "TMA bulk store"},   WayName{Way::add_f32, "TMA reduce-add f32"},
    WayName{Way::add_bf16, "TMA reduce-add bf16"}};

Words words_of(Way way) {
  if (way == Way::add_f32) return Words::f32;
  return way == Way::add_bf16 ? Words::bf16 : Words::bits;
}

/// Of a rank's memory: a block from each rank, a guard, a block for each rank, a guard.
class Exchange {
 public:
  Exchange(const Group& group, const Gpu& gpu, const DeviceMemory& memory, Way way, int round)
      : ranks_(group.ranks()),
        rank_(group.rank()),
        gpu_(gpu),
        memory_(memory),
        way_(way),
        round_(round) {}

  static std::size_t bytes(int ranks) {
    return 2 * (static_cast<std::size_t>(ranks) * kBlock + kGuard);
  }

  /// Local: poison, guards, what is to be sent.
  void prepare() const {
    const cudaStream_t stream = gpu_.stream();
    const std::size_t half = inbox_bytes() + kGuard;
    require_cuda(cudaMemsetAsync(memory_.local(), 0xff, memory_.bytes(), stream), "poison");
    fill(memory_.local() + inbox_bytes(), kGuard, Words::bits, kGuardSeed, stream);
    fill(memory_.local() + half + inbox_bytes(), kGuard, Words::bits, kGuardSeed, stream);
    if (adds())
      fill(memory_.local(), inbox_bytes(), words_of(way_), seed(rank_, rank_) + 1, stream);
    for (int p = 0; p < ranks_; ++p)
      fill(outbox(rank_, p), kBlock, Words::bits, seed(rank_, p), stream);
    gpu_.finish("preparing a transfer");
  }

  /// To every rank, the own one included, in rotated order.
  void transfer() const {
    for (int i = 0; i < ranks_; ++i) transfer_to((rank_ + i) % ranks_);
    gpu_.finish("a transfer");
  }

  /// Empty, or the first thing that is wrong in the own memory.
  [[nodiscard]] std::string verify() const {
    const std::size_t half = inbox_bytes() + kGuard;
    std::string wrong =
        gpu_.differences("guard", memory_.local() + inbox_bytes(), kGuard, bits_of(kGuardSeed));
    if (wrong.empty())
      wrong = gpu_.differences("guard at the end", memory_.local() + half + inbox_bytes(), kGuard,
                               bits_of(kGuardSeed));
    if (adds()) {
      Expected sum = bits_of(seed(rank_, rank_) + 1);
      sum.words = words_of(way_);
      for (int s = 0; s < ranks_; ++s) sum.add(seed(s, rank_));
      return wrong.empty()
                 ? gpu_.differences("sum of all ranks", memory_.local(), inbox_bytes(), sum)
                 : wrong;
    }
    for (int s = 0; s < ranks_ && wrong.empty(); ++s)
      wrong = gpu_.differences(fmt::format("block of rank {}", s), inbox(rank_, s), kBlock,
                               bits_of(seed(s, rank_)));
    return wrong;
  }

 private:
  [[nodiscard]] bool adds() const { return words_of(way_) != Words::bits; }
  [[nodiscard]] std::size_t inbox_bytes() const {
    return static_cast<std::size_t>(ranks_) * kBlock;
  }
  [[nodiscard]] std::byte* inbox(int owner, int source) const {
    return memory_.peer(owner) + static_cast<std::size_t>(source) * kBlock;
  }
  [[nodiscard]] std::byte* outbox(int owner, int target) const {
    return inbox(owner, target) + inbox_bytes() + kGuard;
  }
  /// Even, so that the next one is nobody else's.
  [[nodiscard]] std::uint32_t seed(int source, int owner) const {
    const int turn = round_ * 16 + static_cast<int>(way_);
    return static_cast<std::uint32_t>(((turn * 64 + source) * 64 + owner) * 2);
  }

  void transfer_to(int p) const {
    const cudaStream_t stream = gpu_.stream();
    switch (way_) {
      case Way::stores: fill(inbox(p, rank_), kBlock, Words::bits, seed(rank_, p), stream); break;
      case Way::loads: copy_words(inbox(rank_, p), outbox(p, rank_), kBlock, stream); break;
      case Way::push: copy(inbox(p, rank_), outbox(rank_, p)); break;
      case Way::pull: copy(inbox(rank_, p), outbox(p, rank_)); break;
      case Way::bulk_store: bulk_store(inbox(p, rank_), kBlock, seed(rank_, p), stream); break;
      case Way::add_f32:
      case Way::add_bf16:
        bulk_add(memory_.peer(p), inbox_bytes(), words_of(way_), seed(rank_, p), stream);
        break;
    }
  }
  void copy(void* to, const void* from) const {
    require_cuda(cudaMemcpyAsync(to, from, kBlock, cudaMemcpyDefault, gpu_.stream()),
                 "cudaMemcpyAsync between ranks");
  }

  int ranks_;
  int rank_;
  const Gpu& gpu_;
  const DeviceMemory& memory_;
  Way way_;
  int round_;
};

/// All ways, some rounds each. Empty entries: nothing wrong.
std::array<std::string, kWays.size()> exchange_all(Group& group, const Gpu& gpu,
                                                   const DeviceMemory& memory) {
  std::array<std::string, kWays.size()> wrong;
  for (std::size_t w = 0; w < kWays.size(); ++w) {
    for (int round = 0; round < kRounds; ++round) {
      const Exchange exchange(group, gpu, memory, kWays[w].way, round);
      exchange.prepare();
      group.all_gather("", kTimeout_s);
      exchange.transfer();
      group.all_gather("", kTimeout_s);
      if (wrong[w].empty()) wrong[w] = exchange.verify();
    }
  }
  group.all_gather("", kTimeout_s);
  return wrong;
}

/// The promises of allocate_device about addresses. Collective.
std::string check_layout(Group& group, const Gpu& gpu, const DeviceMemory& memory,
                         std::size_t bytes) {
  const std::string own = fmt::format("stride {}, base {}", memory.stride(),
                                      group.one_process() ? fmt::ptr(memory.base()) : nullptr);
  const auto all = group.all_gather(own, kTimeout_s);
  const auto last = static_cast<std::size_t>(group.ranks() - 1) * memory.stride();
  if (memory.bytes() != bytes || memory.stride() < bytes || memory.rank() != group.rank() ||
      memory.ranks() != group.ranks() || memory.device() != gpu.device() ||
      memory.peer(group.ranks() - 1) != memory.base() + last)
    return fmt::format("{} bytes, stride {}, rank {} of {}, device {}: expected {}, {} of {}, {}",
                       memory.bytes(), memory.stride(), memory.rank(), memory.ranks(),
                       memory.device(), bytes, group.rank(), group.ranks(), gpu.device());
  for (const std::string& other : all)
    if (other != own) return fmt::format("{} here and {} elsewhere, expected the same", own, other);
  return {};
}

/// All ranks' new memory, as every rank sees it. Collective.
std::string check_zeros(Group& group, const Gpu& gpu, const DeviceMemory& memory) {
  Expected zeros;
  zeros.words = Words::f32;
  std::string wrong;
  for (int r = 0; r < group.ranks() && wrong.empty(); ++r)
    wrong = gpu.differences(fmt::format("new memory of rank {}", r), memory.peer(r),
                            memory.bytes() / 16 * 16, zeros);
  group.all_gather("", kTimeout_s);
  return wrong;
}

}  // namespace

void check_transfers(Member& m) {
  const std::size_t bytes = Exchange::bytes(m.ranks());
  const auto memory = allocate_device(m.group, m.gpu.device(), bytes, kTimeout_s);
  m.say("addresses", check_layout(m.group, m.gpu, *memory, bytes));
  m.say("new memory is zero", check_zeros(m.group, m.gpu, *memory));
  const auto wrong = exchange_all(m.group, m.gpu, *memory);
  for (std::size_t w = 0; w < kWays.size(); ++w)
    m.say(kWays[w].name, wrong[w],
          {{"MiB to each peer", static_cast<double>(kRounds * kBlock) / (1U << 20)}});
}

void check_subgroup(Member& m) {
  std::vector<int> members;  // even ranks and odd ranks, last first
  for (int r = m.ranks() - 1; r >= 0; --r)
    if (r % 2 == m.rank() % 2) members.push_back(r);
  if (m.ranks() == 2) members = {1, 0};
  const auto group = m.group.subgroup(members, kTimeout_s);
  const std::size_t bytes = Exchange::bytes(group->ranks());
  const auto memory = allocate_device(*group, m.gpu.device(), bytes, kTimeout_s);
  std::string wrong = check_layout(*group, m.gpu, *memory, bytes);
  const std::string zeros = check_zeros(*group, m.gpu, *memory);
  if (wrong.empty()) wrong = zeros;
  for (const std::string& found : exchange_all(*group, m.gpu, *memory))
    if (wrong.empty()) wrong = found;
  m.say("subgroup, all ways", wrong, {{"members", static_cast<double>(members.size())}});
}

void check_host_memory(Member& m) {
  constexpr std::size_t kBytes = 64 * 1024;
  HostMemory memory(m.gpu.device(), kBytes);
  std::string wrong;
  for (std::size_t i = 0; i < kBytes && wrong.empty(); ++i)
    if (memory.host()[i] != std::byte{0})
      wrong = fmt::format("byte {} is {:#x}, expected 0", i, static_cast<int>(memory.host()[i]));
  const std::uint32_t seed = 77 + static_cast<std::uint32_t>(m.rank());
  fill(memory.device(), kBytes, Words::bits, seed, m.gpu.stream());
  m.gpu.finish("filling host memory");
  if (wrong.empty())
    wrong = m.gpu.differences("host memory", memory.device(), kBytes, bits_of(seed));
  // What the host wrote, as the kernel reads it: the same words, copied by the host.
  HostMemory copy(m.gpu.device(), kBytes);
  std::memcpy(copy.host(), memory.host(), kBytes);
  if (wrong.empty())
    wrong = m.gpu.differences("host's copy of it", copy.device(), kBytes, bits_of(seed));
  m.say("host memory", wrong);
}

}  // namespace tilelace::comm::test
